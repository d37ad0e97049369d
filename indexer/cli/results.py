"""A page of results for a person: a table or a list, their number, and explanations."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from indexer.cli.options import command_line
from indexer.cli.terminal import UNBOUNDED, answer_drawn, draw_text
from indexer.text import count_of, shorten
from service.engines.engine import Answer
from service.schema.responses import EndpointList, Explanation, ServiceList

if TYPE_CHECKING:  # rich is an optional dependency, which scripts do without
    from rich.console import Console

STYLES = {"name": "bold", "url": "bold", "price": "green"}
"""Styles of columns."""
TITLES = ("name", "method", "url", "price")
"""Columns that are the title of a result in a list; the others are its details."""
RANK = "#"
NUMBERS = (RANK, "calls/30d")
"""Columns that are aligned to the right."""
YES = "yes"
INDENT = 5  # columns of the rank in a list


Row = dict[str, str]
"""The cells of a result by column, which has its `url`, if it is an endpoint, or its `id`."""


def answer_page(
    noun: str,
    rows: Sequence[Row],
    page: ServiceList | EndpointList,
    total: int,
    hits: Answer,
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
        summary = [f"there are {count_of(total, noun)}, and --offset skips them all"]
    else:
        summary = [
            _describe_page(noun, page.offset, len(rows), total, note + hits.note),
            f"details: {command_line(options, 'show', rows[0].get('service') or rows[0]['id'])}",
        ]
    summary += [hits.warning] if hits.warning else []

    def draw(console: Console) -> None:
        if rows:
            ranked = enumerate(rows, page.offset + 1)
            _draw_results(console, [{RANK: f"{rank:,}"} | row for rank, row in ranked])
        if page.explanations:
            names = [row["url"] if "url" in row else row["id"] for row in rows]
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


def _draw_results(console: Console, results: Sequence[Row]) -> None:
    """Draw a table or, where that is too wide, a list."""
    from rich.table import Table  # noqa: PLC0415  # an optional dependency
    from rich.text import Text  # noqa: PLC0415  # the same

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in results[0]:
        table.add_column(name, style=STYLES.get(name), no_wrap=True)
        table.columns[-1].justify = "right" if name in NUMBERS else "left"
    for result in results:
        table.add_row(*map(Text, result.values()))
    unbounded = console.options.update(width=UNBOUNDED)
    if console.measure(table, options=unbounded).maximum <= console.width:
        console.print(table)
    else:
        for result in results:
            cells = {name: cell for name, cell in result.items() if cell and name != RANK}
            title = [(f"{cells[name]}  ", STYLES.get(name, "")) for name in cells if name in TITLES]
            details = [_label(name, cells[name]) for name in cells if name not in TITLES]
            draw_text(console, INDENT, *title, label=f"{result[RANK]:>3}")
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
    count = count_of(total, noun)
    if offset or last < total:
        count = f"{offset + 1:,}–{last:,} of {count}"
    return f"{count}{note}" + (f"; --offset {last} has the next" if last < total else "")
