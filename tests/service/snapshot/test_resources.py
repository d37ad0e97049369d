"""Listed resources: filters and pages, compared with brute force."""

from __future__ import annotations

import json
import tracemalloc
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.index.offers import OfferWriter
from indexer.resources.x402 import read_resource
from indexer.snapshot.resources import ServiceListing, write_resources
from service.arrays.container import open_arrays
from service.conditions import (
    ASSET,
    OFFER_NETWORK,
    PAYEE,
    ResourceConditions,
    ResourceFilters,
    StatedFilters,
)
from service.filtering.offers import Offers
from service.networks import network_key
from service.snapshot import resources as stored
from service.snapshot.resources import Resources
from tests.support.running import Json, examples
from tests.support.sources.x402 import SOLANA_USDC, USDC, accept, resource

NETWORKS = ("base", "eip155:8453", "solana")
SCHEMES = ("exact", "upto")
ADDRESSES = ("0xPay", "0xpay", "So1")
KEYS = ("bazaar", "payment-identifier")
TYPES = ("http", "mcp")
ASSETS = (USDC, USDC.lower(), SOLANA_USDC, "0xUnknown")
AMOUNTS = ("1000", "20000", "3000000", "")
TAGS = ("weather", "Weather", "news")

entries = st.builds(
    lambda network, scheme, pay_to, asset, amount: accept(
        amount, network=network, scheme=scheme, payTo=pay_to, asset=asset
    ),
    *(st.sampled_from((*values, None, 7)) for values in (NETWORKS, SCHEMES, ADDRESSES, ASSETS)),
    st.sampled_from(AMOUNTS),
)
records = st.lists(
    st.builds(
        lambda accepts, keys, kind, tags: {
            "accepts": accepts,
            "extensions": {key: {} for key in keys},
            "type": kind,
            "tags": list(tags),
        },
        st.lists(entries, min_size=1, max_size=3),
        st.sets(st.sampled_from(KEYS)),
        st.sampled_from(TYPES),
        st.sets(st.sampled_from(TAGS)),
    ),
    max_size=12,
)
filters = st.builds(
    StatedFilters,
    **{
        name: st.none() | st.sampled_from((*values, "unknown", "x" * 300))
        for name, values in {"type": TYPES, "network": NETWORKS, "scheme": SCHEMES}.items()
    },
    pay_to=st.none() | st.sampled_from((*ADDRESSES, "?")),
    extensions=st.none() | st.sampled_from(KEYS),
)
search_filters = st.builds(
    ResourceFilters,
    extensions=st.sets(st.sampled_from(KEYS)).map(tuple),
    tags=st.sets(st.sampled_from((*TAGS, "unknown"))).map(tuple),
    url_substring=st.none()
    | st.sampled_from(("A.EXAMPLE/1", "https", "/3", "nowhere", "1\nhttp", "HTTPS://A.EXAMPLE/1")),
    network=st.none() | st.sampled_from(("Base", "solana", "x")),
    asset=st.none() | st.sampled_from((USDC.upper(), "0xunknown")),
    pay_to=st.none() | st.just("0XPAY"),
    max_usd_price=st.none() | st.sampled_from((0.0, 0.02, 1.0)),
)


def write(folder: Path, fields: list[Json]) -> Resources:
    def listings() -> Any:
        for number, each in enumerate(fields):
            text = json.dumps(resource(f"https://a.example/{number}") | each).encode()
            yield ServiceListing(0, "a", read_resource(text), in_record=True)

    offers, path = OfferWriter(), folder / "resources.arrays"
    assert len(write_resources(path, listings(), 1, offers).keys) == len(fields)
    offers.write(folder / "offers.arrays", np.zeros(len(fields), np.int32), 1)
    return Resources(path, Offers(open_arrays(folder / "offers.arrays")))


def read(page: stored.ResourcePage) -> list[int]:
    """Return the numbers of the resources of a page."""
    items = json.loads(b"[%b]" % b",".join(page.texts))
    assert page.count == len(items)
    return [int(each["resource"].rpartition("/")[2]) for each in items]


def satisfies(record: Json, wanted: StatedFilters) -> bool:
    def accepts(entry: Json) -> bool:
        pay_to = str(entry["payTo"]).casefold()
        return (
            wanted.network in {None, entry["network"]}
            and wanted.scheme in {None, entry["scheme"]}
            and (wanted.pay_to is None or wanted.pay_to.casefold() == pay_to)
        )

    return (
        wanted.type in {None, record["type"]}
        and wanted.extensions in {None, *record["extensions"]}
        and any(map(accepts, record["accepts"]))
    )


def satisfies_search(number: int, record: Json, wanted: ResourceFilters) -> bool:
    def accepts(entry: Json) -> bool:
        network = network_key(str(entry["network"]))
        asset, pay_to = str(entry["asset"]).casefold(), str(entry["payTo"]).casefold()
        pairs = (
            (OFFER_NETWORK, wanted.network, network),
            (ASSET, wanted.asset, asset),
            (PAYEE, wanted.pay_to, pay_to),
        )
        is_usdc = (network, asset) in {("base", USDC.lower()), ("solana", SOLANA_USDC.lower())}
        is_known = is_usdc and entry["asset"] in {USDC, USDC.lower(), SOLANA_USDC}
        price = int(entry["amount"]) / 1e6 if is_known and entry["amount"] else inf
        return all(value is None or column.key(value) == own for column, value, own in pairs) and (
            wanted.max_usd_price is None or price <= wanted.max_usd_price
        )

    part = (wanted.url_substring or "").lower()
    return (
        part in f"https://a.example/{number}"
        and record["extensions"].keys() >= set(wanted.extensions)
        and (not wanted.tags or not set(wanted.tags).isdisjoint(record["tags"]))
        and any(map(accepts, record["accepts"]))
    )


@settings(max_examples=examples(100), deadline=None)
@given(records, filters, st.integers(1, 5), st.integers(0, 14))
def test_filters_hold_together_on_one_entry(
    tmp_path_factory: pytest.TempPathFactory,
    fields: list[Json],
    wanted: StatedFilters,
    limit: int,
    offset: int,
) -> None:
    resources = write(tmp_path_factory.mktemp("resources"), fields)
    expected = [number for number, each in enumerate(fields) if satisfies(each, wanted)]
    page = resources.list(wanted, limit, offset)
    assert page.total == len(expected)
    assert read(page) == expected[offset : offset + limit]
    assert not page.is_cut


@settings(max_examples=examples(100), deadline=None)
@given(records, search_filters)
def test_filters_of_a_search_hold_together_on_one_entry(
    tmp_path_factory: pytest.TempPathFactory, fields: list[Json], wanted: ResourceFilters
) -> None:
    resources = write(tmp_path_factory.mktemp("resources"), fields)
    page = resources.list(wanted, 100, 0)
    assert read(page) == [n for n, each in enumerate(fields) if satisfies_search(n, each, wanted)]


def test_a_page_spans_several_chunks_of_matches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.filtering.table.CHUNK", 2)
    resources = write(tmp_path, [{"type": TYPES[n in {0, 4}]} for n in range(7)])
    page = resources.list(ResourceFilters(type=TYPES[0]), 3, 1)
    assert (page.total, read(page)) == (5, [2, 3, 5])


def test_a_page_is_cut_where_it_has_too_many_bytes_but_never_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [10, 2000, 10, 10, 5000, 10]
    fields = [{"x": "y" * size, "accepts": [accept(payTo="0xa")]} for size in sizes]
    resources = write(tmp_path, fields)
    monkeypatch.setattr(stored, "MAX_PAGE", 2500)
    for wanted in (ResourceFilters(), ResourceFilters(pay_to="0xa")):
        walked, offset, cut = [], 0, []
        while offset < len(sizes):
            page = resources.list(wanted, 1000, offset)
            walked += read(page)
            cut.append(page.is_cut)
            offset += page.count
        assert walked == list(range(len(sizes)))
        assert cut[-1] is False
        assert any(cut)


def test_many_different_filters_leave_no_memory(tmp_path: Path) -> None:
    """Nothing of a request stays, however long its values are."""
    resources = write(tmp_path, [])
    resources.list(ResourceFilters(type="x"), 1, 0)
    tracemalloc.start()
    for number in range(2000):
        assert not read(resources.list(ResourceFilters(type=f"{'x' * 4000}{number}"), 1, 0))
    bytes_in_use, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert bytes_in_use < 100_000


def test_without_resources_every_page_is_empty(tmp_path: Path) -> None:
    resources = write(tmp_path, [])
    everything: tuple[ResourceConditions, ...] = (
        ResourceFilters(),
        StatedFilters(type="http", network="base"),
        ResourceFilters(url_substring="http", extensions=("a",), tags=("b",), max_usd_price=1.0),
    )
    for wanted in everything:
        page = resources.list(wanted, 10, 0)
        assert (page.total, page.count, list(page.texts)) == (0, 0, [])
