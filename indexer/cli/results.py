"""A page of results for a person: a table or a list, their number, and explanations."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from indexer.cli.options import command_line
from indexer.cli.terminal import UNBOUNDED, answer_drawn, draw_text
from indexer.text import shorten
from service.schema.responses import EndpointList, Explanation, ServiceList

if TYPE_CHECKING:  # rich is an optional dependency, which scripts do without
    from rich.console import Console

STYLES = {"name": "bold", "url": "bold", "price": "green"}
"""Styles of columns."""
TITLES = ("name", "method", "url", "price")
"""Columns that are the title of a result in a list; the others are its details."""
NUMBERS = ("#", "calls/30d")
"""Columns that are aligned to the right; the first is the rank."""
YES = "yes"
INDENT = 5  # columns of the rank in a list


class Row(NamedTuple):
    """A result: its name in explanations, the id of its service, and its cells but the rank."""

    name: str
    service: str
    cells: tuple[str, ...]


def answer_page(
    noun: str,
    columns: Sequence[str],
    rows: Sequence[Row],
    page: ServiceList | EndpointList,
    total: int,
    options: argparse.Namespace,
    *,
    note: str = "",
    hint: str = "",
) -> int:
    """Print a page of results, how many there are, and the next command; returns the exit status.

    `note` follows the total of results on all pages, and `hint` is for a search without any.
    """
    if not total:
        query = f" for {shorten(' '.join(options.words))!r}" if options.words else ""
        summary = [f"there is no {noun}{query}", *filter(None, [hint])]
    elif not rows:
        summary = [f"there are {total:,} {noun}s, and --offset skips them all"]
    else:
        summary = [
            _describe_page(noun, page.offset, len(rows), total, note),
            f"details: {command_line(options, 'show', rows[0].service)}",
        ]

    def draw(console: Console) -> None:
        if rows:
            ranked = enumerate(rows, page.offset + 1)
            _draw_results(console, columns, [(f"{rank:,}", *row.cells) for rank, row in ranked])
        if page.explanations:
            names = [row.name for row in rows]
            for line in describe_explanations(page.explanations, names, page.offset):
                console.print(line, soft_wrap=True, markup=False, highlight=False)
            console.print()
        for line in summary:
            console.print(line, style="dim", soft_wrap=True)

    return answer_drawn(draw)


def describe_explanations(
    explanations: Sequence[Explanation], names: Sequence[str], offset: int
) -> Iterator[str]:
    """Yield a line for each result: its score as the sum of its parts."""
    for rank, (each, name) in enumerate(zip(explanations, names, strict=True), offset + 1):
        parts = [f"{word.score:.2f} {_describe_term(word.word, word.term)}" for word in each.words]
        if each.similarity is not None:
            parts.append(f"{each.similarity_score:.2f} similarity {each.similarity:.2f}")
        first = " (its name is the query)" if each.is_exact_name else ""
        total = " + ".join(parts) or "nothing"
        penalty = f" - {each.size_penalty:.2f} size" if each.size_penalty else ""
        yield f"{rank:,}  {shorten(name)}: {each.score:.2f} = {total}{penalty}{first}"


def _describe_term(word: str, term: str) -> str:
    word, term = shorten(word), shorten(term)
    return word if word.startswith(term) else f"{word} → {term}"


def _draw_results(
    console: Console, columns: Sequence[str], results: Sequence[tuple[str, ...]]
) -> None:
    """Draw a table or, where that is too wide, a list."""
    from rich.table import Table  # noqa: PLC0415  # an optional dependency
    from rich.text import Text  # noqa: PLC0415  # the same

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in columns:
        table.add_column(name, style=STYLES.get(name), no_wrap=True)
        table.columns[-1].justify = "right" if name in NUMBERS else "left"
    for result in results:
        table.add_row(*map(Text, result))
    unbounded = console.options.update(width=UNBOUNDED)
    if console.measure(table, options=unbounded).maximum <= console.width:
        console.print(table)
    else:
        for rank, *cells in results:
            parts = [*zip(columns[1:], cells, strict=True)]
            title = [
                (f"{cell}  ", STYLES.get(name, ""))
                for name, cell in parts
                if name in TITLES and cell
            ]
            details = [_label(name, cell) for name, cell in parts if name not in TITLES and cell]
            draw_text(console, INDENT, *title, label=f"{rank:>3}")
            draw_text(console, INDENT, " · ".join(details))
    console.print()


def _label(column: str, cell: str) -> str:
    """Return a cell with what the head of its column says."""
    if column in NUMBERS:
        return f"{cell} {column}"
    return column if cell == YES else cell


def _describe_page(noun: str, offset: int, shown: int, total: int, note: str) -> str:
    """Return which of all results are shown, and the offset of the next page."""
    last = offset + shown
    count = f"{total:,} {noun}{'s' * (total != 1)}"
    if offset or last < total:
        count = f"{offset + 1:,}–{last:,} of {count}"
    return f"{count}{note}" + (f"; --offset {last} has the next" if last < total else "")
