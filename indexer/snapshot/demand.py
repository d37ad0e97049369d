"""Writing the table of the demand of services."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import nlargest
from pathlib import Path

import msgspec
from msgspec import Struct

from indexer.search.popularity import Payers
from service.schema.demand import DemandInputs, PopularService, StoredDemand
from service.storage.container import writing_arrays
from service.storage.texts import write_texts

SHOWN = 10
"""Services of the chart of the ecosystem."""


class CountedDemand(Struct, frozen=True):
    """The payments of a service: the JSON of its demand, and the payers that order it.

    payers: None without payments that are credited to the service
    of_endpoints: the same of its endpoints that have payments
    """

    text: bytes
    payers: Payers | None
    of_endpoints: dict[int, Payers]


class DemandRow(Struct, frozen=True):
    """A service in listing order, with the JSON of its demand, which is empty without payments."""

    id: str
    name: str
    text: bytes


_stored = msgspec.json.Decoder(StoredDemand)


def write_demand(folder: Path, inputs: DemandInputs, services: Iterable[DemandRow]) -> None:
    """Write the rows of a `service.snapshot.payments.DemandTable`."""
    popular: list[PopularService] = []

    def rows() -> Iterator[bytes]:
        for each in services:
            yield each.text
            if each.text:
                popular.append(_popular(each))
                popular[:] = nlargest(SHOWN, popular, key=lambda one: one.payments)
        yield msgspec.json.encode(inputs)
        yield msgspec.json.encode(StoredDemand())
        yield msgspec.json.encode([each for each in popular if each.payments])

    with writing_arrays(folder / "demand.arrays") as writer:
        write_texts(writer, "demand", rows())


def _popular(service: DemandRow) -> PopularService:
    demand = _stored.decode(service.text)
    return PopularService(
        id=service.id,
        name=service.name,
        payments=demand.payments,
        without_top_payer=demand.without_top_payer.calls,
        payers=demand.payers,
        returning_payers=demand.returning_payers,
    )
