"""Filters, sort orders, facets and `endpoints=none`, compared with brute force."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.__main__ import main
from service.conditions import Filters
from service.networks import network_key, network_label
from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.support.processes import IDENTITY
from tests.support.running import Build, Json, endpoint, examples, service

PATHS = ("/v1/services", "/v1/search/services?q=data")


def get(client: httpx.Client, path: str, **params: Any) -> Json:
    url = httpx.URL(path)
    response = client.get(url.copy_merge_params({"limit": 200} | params), headers=IDENTITY)
    assert response.status_code == 200, response.text
    body: Json = response.json()
    return body


def prices(record: Json) -> list[float]:
    pricings = [each["pricing"] for each in record["endpoints"]]
    return [float(text) for each in pricings if (text := each["amount"] or each.get("minAmount"))]


def networks(record: Json) -> set[str]:
    own = record.get("networks") or [
        name for each in record["endpoints"] if (name := each["pricing"].get("network"))
    ]
    return {network_key(name) for name in own}


def schemes(record: Json) -> set[str]:
    return {each["pricing"].get("scheme") for each in record["endpoints"]}


def payers(client: httpx.Client, record: Json) -> tuple[int, int]:
    """Return the payers who came again, and all; the sample has no cycles."""
    demand = client.get(f"/v1/services/{record['id']}/demand").json()["demand"]
    if demand["payments"]:
        return demand["returningPayers"], demand["payers"]
    qualities = [each.get("quality") or {} for each in record["endpoints"]]
    return 0, max((int(each.get("l30DaysUniquePayers", 0)) for each in qualities), default=0)


CONDITIONS: list[tuple[Json, Callable[[Json], bool]]] = [
    ({"category": "Data"}, lambda r: r.get("category") == "Data"),
    ({"category": "data"}, lambda r: r.get("category") == "Data"),
    ({"category": ["Data", "Travel"]}, lambda r: r.get("category") in {"Data", "Travel"}),
    ({"category": ""}, lambda r: not r.get("category")),
    ({"category": "Nowhere"}, lambda _: False),
    ({"network": "Base"}, lambda r: "base" in networks(r)),
    ({"network": "eip155:8453"}, lambda r: "base" in networks(r)),
    ({"network": ["solana", "polygon"]}, lambda r: bool(networks(r) & {"solana", "polygon"})),
    ({"network": "atlantis"}, lambda _: False),
    ({"scheme": "upto"}, lambda r: "upto" in schemes(r)),
    ({"integrationType": "3P"}, lambda r: r.get("integrationType") == "3P"),
    ({"integrationType": ["1p", ""]}, lambda r: r.get("integrationType", "") in {"1P", ""}),
    ({"provider": "GRILLE & söhne gmbh "}, lambda r: r.get("provider") == "Grille & Söhne GmbH"),
    (
        {"provider": ["Grille & Söhne GmbH", "boxbrain.example"]},
        lambda r: r.get("provider") in {"Grille & Söhne GmbH", "boxbrain.example"},
    ),
    ({"provider": ""}, lambda r: not r.get("provider")),
    ({"enriched": "true"}, lambda r: r.get("enriched") is True),
    ({"enriched": "false"}, lambda r: r.get("enriched") is not True),
    ({"maxPrice": "0.002"}, lambda r: min(prices(r), default=1e9) <= 0.002),
    ({"maxPrice": "0"}, lambda r: min(prices(r), default=1e9) <= 0),
    (
        {"category": ["Data", "Search"], "network": "base", "maxPrice": "0.01", "enriched": "true"},
        lambda r: (
            r.get("category") in {"Data", "Search"}
            and "base" in networks(r)
            and min(prices(r), default=1e9) <= 0.01
            and r.get("enriched") is True
        ),
    ),
]


@pytest.fixture(scope="module")
def everything(client: httpx.Client) -> dict[str, list[Json]]:
    """Return the matches of each path; `match=all` adds no similar services to few matches."""
    return {path: get(client, path, match="all")["services"] for path in PATHS}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("params", "holds"), CONDITIONS, ids=[str(c[0]) for c in CONDITIONS])
def test_filters_combine_and_the_total_is_exact(
    client: httpx.Client,
    everything: dict[str, list[Json]],
    path: str,
    params: Json,
    holds: Callable[[Json], bool],
) -> None:
    body = get(client, path, match="all", **params)
    assert body["services"] == [record for record in everything[path] if holds(record)]
    assert body["total"] == len(body["services"])


def test_a_tag_filter_ignores_case(client: httpx.Client) -> None:
    everything = get(client, "/v1/services")["services"]
    tags = Counter(tag for record in everything for tag in set(record.get("tags", [])))
    tag, count = tags.most_common(1)[0]
    assert get(client, "/v1/services", tag=tag.upper())["total"] == count


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("sort", "key"),
    [
        ("popularity", None),
        ("price", lambda r: min(prices(r), default=float("inf"))),
        ("name", lambda r: r["name"].casefold()),
    ],
)
def test_sort_orders_hold_across_pages(
    client: httpx.Client, path: str, sort: str, key: Callable[[Json], Any] | None
) -> None:
    everything = get(client, path)["services"]
    listing = {r["id"]: n for n, r in enumerate(get(client, "/v1/services")["services"])}
    expected = sorted(everything, key=lambda r: listing[r["id"]])
    if key is None:
        expected.sort(key=lambda r: payers(client, r), reverse=True)
    else:
        expected.sort(key=key)
    for filters in ({}, {"network": "Base"}):
        matches = [r for r in expected if not filters or "base" in networks(r)]
        paged = []
        for offset in range(0, len(matches), 20):
            paged += get(client, path, sort=sort, limit=20, offset=offset, **filters)["services"]
        assert paged == matches


def test_the_default_sort_order_is_relevance(client: httpx.Client) -> None:
    for path in PATHS:
        assert get(client, path) == get(client, path, sort="relevance", match="any")


@pytest.mark.parametrize("path", PATHS)
def test_facets_count_all_matches(client: httpx.Client, path: str) -> None:
    names = "category,network,scheme,integrationType,tag,provider"
    params = {"enriched": "false"}
    records = get(client, path, **params)["services"]
    body = get(client, path, facets=names, limit=1, **params)
    assert list(body["facets"]) == names.split(",")
    counted = {
        name: {each["value"]: each["count"] for each in values}
        for name, values in body["facets"].items()
    }
    assert counted["category"] == Counter(record.get("category", "") for record in records)
    providers = Counter(record.get("provider", "") for record in records)
    assert len(counted["provider"]) == min(len(providers), 100)
    assert counted["provider"].items() <= providers.items()
    assert counted["network"] == Counter(
        network_label(name) for record in records for name in networks(record)
    )
    assert counted["scheme"] == Counter(s for record in records for s in schemes(record) if s)
    for values in body["facets"].values():
        counts = [each["count"] for each in values]
        assert counts == sorted(counts, reverse=True)
    assert body["total"] == len(records)


def test_facets_are_absent_unless_requested(client: httpx.Client) -> None:
    assert "facets" not in get(client, "/v1/services")
    assert "facets" not in get(client, "/v1/services", facets="")


@pytest.mark.parametrize("path", PATHS)
def test_endpoints_none_replaces_endpoints_by_their_count(client: httpx.Client, path: str) -> None:
    full = get(client, path)["services"]
    shortened = get(client, path, endpoints="none")["services"]
    assert shortened == [
        record | {"endpoints": [], "endpointCount": len(record["endpoints"])} for record in full
    ]
    assert get(client, path, endpoints="all")["services"] == full


def test_test_network_prices_are_ignored_if_a_service_has_other_networks(
    artifacts: Path, build: Build
) -> None:
    def on(network: str, amount: str, **pricing: str) -> Json:
        return endpoint(amount, network=network, **pricing)

    records = [
        service("real", endpoints=[on("base-sepolia", "0.01"), on("Base", "5")]),
        service("play", endpoints=[on("base-sepolia", "0.02")]),
        service("unpriced", endpoints=[on("base-sepolia", "0.01"), on("Base", "")]),
        service("bounded", endpoints=[on("Base", "", scheme="upto", maxAmount="0.03")]),
    ]
    assert build(records) == 0
    snapshot = open_snapshot(artifacts)
    assert snapshot.list(filters=Filters(max_price=1.0)).ids == ["bounded", "play"]
    ordered = snapshot.list(filters=Filters(sort="price"))
    assert ordered.ids == ["play", "bounded", "real", "unpriced"]


CATEGORIES = st.sampled_from(["Data", "data", "Search", ""])
records = st.lists(
    st.tuples(
        CATEGORIES,
        st.lists(st.sampled_from(["Base", "eip155:8453", "solana", "x"]), max_size=3),
        st.sampled_from(["", "0.1", "0.10", "0.2", "7"]),
        st.booleans(),
    ),
    max_size=12,
)
facet_filters = st.fixed_dictionaries(
    {},
    optional={
        "category": st.lists(CATEGORIES, min_size=1, max_size=2),
        "network": st.lists(st.sampled_from(["base", "Solana", "y"]), min_size=1, max_size=2),
    },
)


@settings(max_examples=examples(40), deadline=None)
@given(
    records,
    facet_filters,
    st.none() | st.booleans(),
    st.none() | st.sampled_from([0.0, 0.1, 0.2]),
    st.sampled_from(["relevance", "popularity", "price", "name"]),
    st.integers(1, 5),
)
def test_paging_returns_every_match_once_under_any_filters(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, list[str], str, bool]],
    facets: dict[str, list[str]],
    enriched: bool | None,
    max_price: float | None,
    sort: Any,
    limit: int,
) -> None:
    snapshot = build_rows(tmp_path_factory.mktemp("filters"), rows)
    filters = Filters(
        category=tuple(facets.get("category", ())),
        network=tuple(facets.get("network", ())),
        enriched=enriched,
        max_price=max_price,
        sort=sort,
        facets=("category",),
    )
    expected = {
        f"s{number}"
        for number, (category, names, price, curated) in enumerate(rows)
        if ("category" not in facets or category.lower() in [c.lower() for c in facets["category"]])
        and (
            "network" not in facets
            or {network_key(n) for n in names} & {network_key(n) for n in facets["network"]}
        )
        and enriched in {None, curated}
        and (max_price is None or (price != "" and float(price) <= max_price))
    }
    for query in (snapshot.list, lambda *page: snapshot.search("thing", *page)):
        pages = [query(limit, offset, filters) for offset in range(0, len(rows) + 1, limit)]
        seen = [service_id for page in pages for service_id in page.ids]
        assert sorted(seen) == sorted(expected)
        assert {page.total for page in pages} == {len(expected)}
        counts = [each["count"] for page in pages[:1] for each in (page.facets or {})["category"]]
        assert sum(map(int, counts)) == len(expected)


def build_rows(folder: Path, rows: list[tuple[str, list[str], str, bool]]) -> Snapshot:
    source = folder / "source.json"
    source.write_text(
        json.dumps(
            [
                service(
                    f"s{number}",
                    name="Thing",
                    category=category,
                    networks=names,
                    enriched=curated,
                    endpoints=[endpoint(price)],
                )
                for number, (category, names, price, curated) in enumerate(rows)
            ]
        )
    )
    out = folder / "artifacts"
    assert main(["build", str(source), "--out", str(out), "--no-downloads"]) == 0
    return open_snapshot(out)
