"""A page of results for a person: a table or a list, their number, and explanations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from indexer.cli.terminal import UNBOUNDED
from indexer.text import shorten
from service.records import Explanation

if TYPE_CHECKING:  # rich is an optional dependency, which scripts do without
    from rich.console import Console

STYLES = {"name": "bold", "url": "bold", "price": "green"}
"""Styles of columns."""
NUMBERS = ("#", "calls/30d")
"""Columns that are aligned to the right."""


class Row(NamedTuple):
    """A result: its cells in a table; in a list its title, in styled parts, and its details."""

    cells: Sequence[str]
    title: Sequence[tuple[str, str]]
    details: Sequence[str]


def draw_results(console: Console, columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Draw a table or, where that is too wide, a list; the first column is the rank."""
    from rich.table import Table  # noqa: PLC0415  # an optional dependency
    from rich.text import Text  # noqa: PLC0415  # the same

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in columns:
        table.add_column(name, style=STYLES.get(name), no_wrap=True)
        table.columns[-1].justify = "right" if name in NUMBERS else "left"
    for row in rows:
        table.add_row(*map(Text, row.cells))
    unbounded = console.options.update(width=UNBOUNDED)
    if console.measure(table, options=unbounded).maximum <= console.width:
        console.print(table)
    else:
        for row in rows:
            item = Table.grid(padding=(0, 2, 0, 0))
            item.add_column(justify="right", min_width=3)
            item.add_column(overflow="fold")
            item.add_row(row.cells[0], Text.assemble(*row.title))
            item.add_row("", Text(" · ".join(filter(None, row.details))))
            console.print(item)
    console.print()


def draw_explanations(
    console: Console, explanations: Sequence[Explanation], names: Sequence[str], offset: int
) -> None:
    """Draw the explanations of a page of results."""
    for line in describe_explanations(explanations, names, offset):
        console.print(line, soft_wrap=True, markup=False, highlight=False)
    console.print()


def describe_page(noun: str, offset: int, shown: int, total: int, note: str = "") -> str:
    """Return which of all results are shown, and the offset of the next page."""
    last = offset + shown
    count = f"{total:,} {noun}{'s' * (total != 1)}"
    if offset or last < total:
        count = f"{offset + 1:,}–{last:,} of {count}"
    return f"{count}{note}" + (f"; --offset {last} has the next" if last < total else "")


def describe_explanations(
    explanations: Sequence[Explanation], names: Sequence[str], offset: int
) -> Iterator[str]:
    """Yield a line for each result: its score, and the parts of that."""
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
