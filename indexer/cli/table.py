"""The results of a search, as a person reads them."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from indexer.catalogue.record import count_calls
from indexer.cli.terminal import ENDLESS
from indexer.snapshot.compare import PriceRange
from indexer.text import shorten
from service.networks import network_label
from service.records import Service, ServiceList

CALLS = "calls/30d"
COLUMNS = ("#", "name", "id", "category", "networks", "price", "curated", CALLS)
NUMBERS = ("#", CALLS)
STYLES = {"name": "bold", "price": "green"}


def draw_results(console: Console, found: ServiceList) -> None:
    """A table with one line for each service or, where that is too wide, a list with several."""
    rows = [_cells(rank, service) for rank, service in enumerate(found.services, found.offset + 1)]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in COLUMNS:
        table.add_column(name, style=STYLES.get(name), no_wrap=True)
    for name in NUMBERS:
        table.columns[COLUMNS.index(name)].justify = "right"
    for row in rows:
        table.add_row(*map(Text, row))
    unbounded = console.options.update(width=ENDLESS)
    if console.measure(table, options=unbounded).maximum <= console.width:
        console.print(table)
    else:
        for row in rows:
            _draw_item(console, dict(zip(COLUMNS, row, strict=True)))


def networks_of(service: Service) -> list[str]:
    """The labels of the networks that a service is paid on, by its endpoints where it is silent."""
    priced = (endpoint.pricing.network for endpoint in service.endpoints)
    names = service.networks or [name for name in priced if name]
    return list(dict.fromkeys(shorten(network_label(name)) for name in names))


def price_of(service: Service) -> str:
    """The range of its prices, or what is said where it has none."""
    if not service.price_summary:
        return "no fixed price"
    found = service.price_summary
    return shorten(str(PriceRange(found.min_amount, found.max_amount, found.currency)))


def calls_of(service: Service) -> int:
    """The calls of all its endpoints in 30 days."""
    return sum(count_calls(endpoint.quality) for endpoint in service.endpoints)


def _cells(rank: int, service: Service) -> tuple[str, ...]:
    return (
        f"{rank:,}",
        shorten(service.name),
        service.id,
        shorten(service.category or ""),
        ", ".join(networks_of(service)),
        price_of(service),
        "yes" if service.enriched else "",
        f"{calls_of(service):,}",
    )


def _draw_item(console: Console, cells: dict[str, str]) -> None:
    item = Table.grid(padding=(0, 2, 0, 0))
    item.add_column(justify="right", min_width=3)
    item.add_column(overflow="fold")
    item.add_row(
        cells["#"], Text.assemble((cells["name"], "bold"), "  ", (cells["price"], "green"))
    )
    details = [cells["id"], cells["category"], cells["networks"], f"{cells[CALLS]} calls"]
    details += ["curated"] if cells["curated"] else []
    item.add_row("", Text(" · ".join(filter(None, details))))
    console.print(item)
