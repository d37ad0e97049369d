"""Listed resources: filters and pages, compared with brute force."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.options import Policy
from indexer.snapshot.resources import write_resources
from indexer.sources.records import SourceRecord
from indexer.x402.resource import read_resource
from service.snapshot import resources as stored
from service.snapshot.resources import NO_RESOURCE_FILTERS, ResourceFilters, Resources
from tests.support.running import Json, examples
from tests.support.x402 import accept, resource

NETWORKS = ("base", "eip155:8453", "solana")
SCHEMES = ("exact", "upto")
ADDRESSES = ("0xPay", "0xpay", "So1")
KEYS = ("bazaar", "payment-identifier")
TYPES = ("http", "mcp")

entries = st.builds(
    lambda network, scheme, pay_to: accept(network=network, scheme=scheme, payTo=pay_to),
    *(st.sampled_from((*values, None, 7)) for values in (NETWORKS, SCHEMES, ADDRESSES)),
)
records = st.lists(
    st.builds(
        lambda accepts, keys, kind: {
            "accepts": accepts,
            "extensions": {key: {} for key in keys},
            "type": kind,
        },
        st.lists(entries, min_size=1, max_size=3),
        st.sets(st.sampled_from(KEYS)),
        st.sampled_from(TYPES),
    ),
    max_size=12,
)
filters = st.builds(
    ResourceFilters,
    *(
        st.none() | st.sampled_from((*values, "unknown", "x" * 300))
        for values in (TYPES, NETWORKS, SCHEMES, ADDRESSES, KEYS)
    ),
)


def write(folder: Path, fields: list[Json]) -> Resources:
    def listings() -> Any:
        for number, each in enumerate(fields):
            text = json.dumps(resource(f"https://a.example/{number}") | each).encode()
            _, listing = read_resource(SourceRecord("", text), Policy())
            assert listing is not None
            yield "a", listing

    assert write_resources(folder, listings()) == len(fields)
    return Resources(folder)


def read(page: stored.ResourcePage) -> list[int]:
    """Return the numbers of the resources of a page."""
    items = json.loads(b"[%b]" % b",".join(page.texts))
    assert page.count == len(items)
    return [int(each["resource"].rpartition("/")[2]) for each in items]


def satisfies(record: Json, wanted: ResourceFilters) -> bool:
    def accepts(entry: Json) -> bool:
        pay_to = str(entry["payTo"]).casefold()
        return (
            wanted.network in {None, entry["network"]}
            and wanted.scheme in {None, entry["scheme"]}
            and (wanted.pay_to is None or wanted.pay_to.casefold() == pay_to)
        )

    return (
        wanted.type in {None, record["type"]}
        and (wanted.extension is None or wanted.extension in record["extensions"])
        and any(map(accepts, record["accepts"]))
    )


@settings(max_examples=examples(100), deadline=None)
@given(records, filters, st.integers(1, 5), st.integers(0, 14))
def test_filters_hold_together_on_one_entry(
    tmp_path_factory: pytest.TempPathFactory,
    fields: list[Json],
    wanted: ResourceFilters,
    limit: int,
    offset: int,
) -> None:
    resources = write(tmp_path_factory.mktemp("resources") / "resources", fields)
    expected = [number for number, each in enumerate(fields) if satisfies(each, wanted)]
    page = resources.list(wanted, limit, offset)
    assert page.total == len(expected)
    assert read(page) == expected[offset : offset + limit]
    assert not page.is_cut


def test_a_page_is_cut_where_it_has_too_many_bytes_but_never_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [10, 2000, 10, 10, 5000, 10]
    fields = [{"x": "y" * size, "accepts": [accept(payTo="0xa")]} for size in sizes]
    resources = write(tmp_path / "resources", fields)
    monkeypatch.setattr(stored, "MAX_PAGE", 2500)
    for wanted in (NO_RESOURCE_FILTERS, ResourceFilters(pay_to="0xa")):
        walked, offset, cut = [], 0, []
        while offset < len(sizes):
            page = resources.list(wanted, 1000, offset)
            walked += read(page)
            cut.append(page.is_cut)
            offset += page.count
        assert walked == list(range(len(sizes)))
        assert cut[-1] is False
        assert any(cut)


def test_without_resources_every_page_is_empty(tmp_path: Path) -> None:
    resources = write(tmp_path / "resources", [])
    for wanted in (NO_RESOURCE_FILTERS, ResourceFilters(type="http", network="base")):
        page = resources.list(wanted, 10, 0)
        assert (page.total, page.count, list(page.texts)) == (0, 0, [])
