"""Identity: which items a record names, and what finding them costs."""

from __future__ import annotations

from typing import Any

import pytest

from indexer.catalogue import table
from tests.support.artifacts import ids
from tests.support.intake import CatalogueFolder, source
from tests.support.running import endpoint, service
from tests.support.sources.x402 import resource

GATEWAY = "https://gateway.example"


@pytest.mark.parametrize("hides", [True, False])
def test_records_of_one_host_read_each_of_its_items_a_few_times(
    catalogue: CatalogueFolder, monkeypatch: pytest.MonkeyPatch, *, hides: bool
) -> None:
    count, read, row_type = 60, 0, table.ItemRow

    def read_row(*values: Any, **named: Any) -> table.ItemRow:
        nonlocal read
        read += 1
        return row_type(*values, **named)

    feed = [resource(f"{GATEWAY}/{name}/{n}") for n in range(count) for name in ("own", "other")]
    records = [
        service(f"s{n}", domain="", endpoints=[endpoint() | {"url": f"{GATEWAY}/own/{n}"}])
        for n in range(count)
    ]
    monkeypatch.setattr(table, "ItemRow", read_row)
    mine = source("mine", records, hides=hides)
    assert catalogue.build(source("feed", feed), mine) == 0
    assert len(ids(catalogue.artifacts)) == count + (not hides)
    assert read < 20 * count
