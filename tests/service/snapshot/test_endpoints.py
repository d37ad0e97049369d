"""Searches for endpoints, compared with brute force over the records."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from math import inf, isnan, log, log10
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.__main__ import main
from service.conditions import ENDPOINT_FACETS, EndpointFilters, Filters
from service.filtering.offers import texts_of_offers
from service.networks import network_key
from service.search.analysis import term_of, words_of
from service.search.config import SEARCH_CONFIG as CONFIG
from service.snapshot.manifest import read_manifest
from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.support.running import Build, Json, endpoint, examples, priced, service, write_lines
from tests.support.searching import WORDS, rank_endpoints
from tests.support.sources.x402 import SOLANA_USDC, TEST_USDC, USDC, accept, resource

USED = WORDS[:6] + WORDS[40:48]
SOLANA = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
PAYERS = ("0xAa", "0xBb", "So1")
PROVIDERS = ("", "Tidewatch", "Almanac")


def make_sources(rng: random.Random) -> list[Json]:
    """Return catalogue records and discovered resources with words, prices and addresses."""

    def text(most: int) -> str:
        return " ".join(rng.choices(USED, k=rng.randint(0, most)))

    def tags() -> list[str]:
        return rng.sample(USED, rng.randint(0, 2))

    def endpoint(number: int) -> Json:
        price = {"amount": rng.choice(("", "0.01", "0.02", "3")), "currency": "USDC"}
        if rng.random() < 0.2:
            price |= {"minAmount": "0.01", "maxAmount": rng.choice(("0.02", "7"))}
        network = rng.choice(({}, {"network": "Base"}, {"network": "Solana"}))
        scheme = rng.choice(({}, {"scheme": "exact"}, {"scheme": "upto", "maxAmount": "5"}))
        return {
            "url": f"https://api.example/{text(2).replace(' ', '/')}/{number}",
            "method": rng.choice(("GET", "POST", "GET, POST", "")),
            "description": text(4),
            "pricing": price | network | scheme,
            "tags": tags(),
            "providerName": PROVIDERS[number % 2],
            "parameters": [{"group": "query", "name": name, "type": "string"} for name in tags()],
            "quality": {"l30DaysUniquePayers": str(rng.choice((0, 7, 7, 900)))},
        }

    def entry() -> Json:
        network, asset = rng.choice(
            (
                ("base", USDC),
                ("eip155:8453", USDC.lower()),
                ("base-sepolia", TEST_USDC),
                (SOLANA, SOLANA_USDC),
                (SOLANA, "x"),
            )
        )
        return accept(
            rng.choice(("1000", "20000", None)),
            network=network,
            asset=asset,
            payTo=rng.choice(PAYERS),
            scheme=rng.choice(("exact", "upto")),
        )

    catalogue = [
        service(
            f"s{number:02}",
            name=text(2) or "None",
            description=text(5),
            category=rng.choice(("Data", "Media", "")),
            enriched=rng.random() < 0.5,
            tags=tags(),
            provider=PROVIDERS[number % 3],
            endpoints=[endpoint(n) for n in range(rng.choice((0, 1, 2, 5, 9)))],
        )
        for number in range(20)
    ]
    discovered = [
        resource(
            f"https://h{rng.randrange(12)}.example/{rng.choice(USED)}/{number}",
            *(entry() for _ in range(rng.randint(1, 3))),
            description=text(4),
            tags=tags(),
        )
        for number in range(40)
    ]
    return catalogue + discovered


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    folder = tmp_path_factory.mktemp("endpoints")
    source = write_lines(folder / "source.jsonl", make_sources(random.Random(7)))  # noqa: S311  # the same in every run
    assert (
        main(["build", source, "--out", str(folder / "artifacts"), "--quiet", "--no-semantic"]) == 0
    )
    return open_snapshot(folder / "artifacts")


@pytest.fixture(scope="module")
def endpoints(snapshot: Snapshot) -> Endpoints:
    return Endpoints(snapshot)


class Endpoints:
    """The endpoints of a snapshot in listing order, read back from its records and resources."""

    def __init__(self, snapshot: Snapshot) -> None:
        stored = [json.loads(snapshot.services.text(n)) for n in range(len(snapshot.services))]
        self.others = [record for record in stored if not record["endpoints"]]
        self.services = [record for record in stored for _ in record["endpoints"]]
        self.all = [each for record in stored for each in record["endpoints"]]
        texts = snapshot.resources.texts
        self.entries: dict[tuple[str, str], list[Json]] = {}
        for ordinal in range(len(texts)):
            listed = json.loads(texts.text(ordinal))
            named = listed["ratecard"]["endpoint"]
            self.entries[named["url"], named["method"]] = listed["accepts"]
        self.fields = [self._fields(number) for number in range(len(self.all))]
        self.fields += [_fields_of(record) for record in self.others]
        self.averages: dict[str, float] = {}
        for name in CONFIG.field_weights:
            lengths = [len(each[name]) for each in self.fields]
            self.averages[name] = sum(lengths) / max(1, len(lengths) - lengths.count(0))

    def offers(self, number: int) -> list[Json]:
        """Return the ways to pay, in the keys of the filters, with their price and entry."""
        endpoint = self.all[number]
        listed = self.entries.get((endpoint["url"], endpoint["method"]))
        if listed is None:
            price = endpoint["pricing"]
            if not {"network", "scheme"} & price.keys():
                return []
            own = {"network": network_key(price.get("network", "")), "asset": "", "payTo": ""}
            return [own | {"scheme": price.get("scheme", ""), "price": self.price(number)}]
        offers = []
        for entry in listed:
            usdc = {USDC, USDC.lower(), SOLANA_USDC, TEST_USDC}
            known = entry["asset"] in usdc and entry["amount"]
            price = int(entry["amount"]) / 1e6 if known else inf
            own = {name: entry[name].casefold() for name in ("scheme", "asset", "payTo")}
            network = network_key(entry["network"])
            offers.append(own | {"network": network, "price": price, "entry": entry})
        return offers

    def price(self, number: int) -> float:
        price = self.all[number]["pricing"]
        highest = price.get("maxAmount") or price["amount"]
        return float(
            (highest if price.get("scheme") == "upto" else price["amount"] or highest) or inf
        )

    def select(self, filters: EndpointFilters) -> dict[int, Json]:
        """Map the endpoints that satisfy the filters to their cheapest offer, if one is needed."""
        selected: dict[int, Json] = {}
        for number, record in enumerate(self.all):
            owner, best = self.services[number], {}
            price = self.price(number)
            if of_offers := offers_of(filters):
                offers = self.offers(number)
                is_test = [offer["network"] == "base-sepolia" for offer in offers]
                if "network" not in of_offers and not all(is_test):
                    offers = [o for o, test in zip(offers, is_test, strict=True) if not test]
                offers = [offer for offer in offers if satisfies(offer, of_offers)]
                if not offers:
                    continue
                best = min(offers, key=lambda offer: offer["price"])
                price = best["price"]
            methods = record["method"].split(", ")
            values = {
                "method": [method for method in methods if method],
                "category": [owner.get("category", "")],
                "tag": record.get("tags") or owner.get("tags", []),
                "provider": [record.get("providerName") or owner.get("provider", "")],
                "service": [owner["id"]],
            }
            given = {name: own for name, own in texts_of(filters).items() if name in values}
            if (
                all(set(values[name]) & set(own) for name, own in given.items())
                and filters.enriched in {None, owner.get("enriched", False)}
                and (filters.max_price is None or price <= filters.max_price)
            ):
                selected[number] = {"price": price} | best
        return selected

    def payers(self, number: int) -> int:
        quality = self.all[number].get("quality") or {}
        return int(quality.get("l30DaysUniquePayers", 0))

    def scores(self, query: str) -> Counter[int]:
        """Return BM25F in impact units, of the endpoints that have any of the words.

        Services without endpoints are documents of the same index.
        """
        scores: Counter[int] = Counter()
        for term in {term_of(word.text) for word in words_of(query)}:
            frequencies: dict[int, float] = defaultdict(float)
            for number, own in enumerate(self.fields):
                for name, weight in CONFIG.field_weights.items():
                    if count := own[name].count(term):
                        b = CONFIG.length_normalisation
                        norm = 1 - b + b * len(own[name]) / self.averages[name]
                        frequencies[number] += weight * count / norm
            found = len(frequencies)
            idf = log(1 + (len(self.fields) - found + 0.5) / (found + 0.5))
            for number in range(len(self.all)):
                if not (frequency := frequencies.get(number, 0)):
                    continue
                use = 0.25 * min(1, log10(1 + self.payers(number)) / log10(10_001))
                curated = self.services[number].get("enriched", False)
                boost = 1 + CONFIG.prior_bound * (0.5 * curated + 0.5 * use)
                relevance = idf * frequency / (CONFIG.saturation + frequency) * boost
                scores[number] += max(1, round(relevance * CONFIG.impact_scale))
        return scores

    def _fields(self, number: int) -> dict[str, list[str]]:
        endpoint, owner = self.all[number], self.services[number]
        names = [parameter["name"] for parameter in endpoint.get("parameters", [])]
        texts = {
            "title": endpoint["url"].split("/", 3)[3].replace("/", " "),
            "description": endpoint.get("description", ""),
            "parameters": " ".join(names),
            "tags": " ".join(endpoint.get("tags", [])),
            "service_name": owner["name"],
            "service_description": owner["description"],
            "service_category": owner.get("category", ""),
        }
        return _terms(texts)


def _fields_of(record: Json) -> dict[str, list[str]]:
    texts = {"title": record["name"], "description": record["description"]}
    return _terms(texts | {"category": record.get("category", "")})


def _terms(texts: dict[str, str]) -> dict[str, list[str]]:
    return {
        name: [term_of(word.text) for word in words_of(texts.get(name, ""))]
        for name in CONFIG.field_weights
    }


def texts_of(filters: EndpointFilters) -> dict[str, Any]:
    """Return the conditions on texts, by the names of parameters."""
    return {each.name: value for each, value in filters.given() if each.column.holds is None}


def offers_of(filters: EndpointFilters) -> dict[str, Any]:
    """Return the conditions on texts of offers."""
    return {each.name: value for each, value in texts_of_offers(filters)}


def satisfies(offer: Json, conditions: Mapping[str, Sequence[str]]) -> bool:
    keys: dict[str, Callable[[str], str]] = {"network": network_key}
    return all(
        offer[name] in [keys.get(name, str.casefold)(value) for value in values]
        for name, values in conditions.items()
    )


def any_of(*values: str) -> st.SearchStrategy[tuple[str, ...]]:
    given = st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True).map(tuple)
    return st.just(()) | given


filters = st.builds(
    EndpointFilters,
    network=any_of("Base", "eip155:8453", "solana", "base-sepolia", "nowhere"),
    scheme=any_of("exact", "UPTO"),
    asset=any_of(USDC, SOLANA_USDC.lower(), "nowhere"),
    pay_to=any_of("0xAA", "so1"),
    method=any_of("GET", "POST"),
    category=any_of("Data", "", "Media"),
    tag=any_of(*USED[:3]),
    provider=any_of(*PROVIDERS),
    service=any_of("s01", "s02", "s03", "unknown"),
    enriched=st.none() | st.booleans(),
    max_price=st.none() | st.sampled_from((0.0, 0.01, 0.02, 5.0)),
    sort=st.sampled_from(("relevance", "price", "popularity")),
    per_service=st.sampled_from((0, 1, 3)),
)


@settings(max_examples=examples(300), deadline=None)
@given(
    query=st.none() | st.lists(st.sampled_from(USED), min_size=1, max_size=3).map(" ".join),
    wanted=filters,
    limit=st.integers(1, 12),
    offset=st.integers(0, 20),
)
def test_pages_counts_and_matches_equal_those_of_brute_force(
    snapshot: Snapshot,
    endpoints: Endpoints,
    query: str | None,
    wanted: EndpointFilters,
    limit: int,
    offset: int,
) -> None:
    scores = Counter(range(0)) if query is None else endpoints.scores(query)
    selected = {
        number: best
        for number, best in endpoints.select(wanted).items()
        if query is None or number in scores
    }

    def key(number: int) -> Any:
        by = {"relevance": -scores[number], "price": selected[number]["price"]}
        return by.get(wanted.sort, -endpoints.payers(number)), number

    seen: Counter[str] = Counter()
    listed = []
    for number in sorted(selected, key=key):
        owner = endpoints.services[number]["id"]
        seen[owner] += 1
        if not wanted.per_service or seen[owner] <= wanted.per_service:
            listed.append(number)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("service.filtering.table.CHUNK", 5)  # offers of an endpoint are in several
        hits = rank_endpoints(snapshot, query, limit, offset, wanted)
    assert (hits.total, hits.listed) == (len(selected), len(listed))
    assert list(hits.ordinals) == listed[offset : offset + limit]
    for ordinal, offer in zip(hits.ordinals, hits.offers, strict=True):
        item = json.loads(b"".join(snapshot.endpoints.item(ordinal, offer)))
        assert item.pop("match", None) == selected[ordinal].get("entry")
        price, shown = selected[ordinal]["price"], snapshot.endpoints.price_of(ordinal, offer)
        is_other = bool(offers_of(wanted)) and price not in {inf, endpoints.price(ordinal)}
        assert (shown and shown[0]) == (price if is_other else None)
        owner = endpoints.services[ordinal]
        assert item.pop("service") == {
            "id": owner["id"],
            "name": owner["name"],
            "category": owner.get("category", ""),
            "enriched": owner.get("enriched", False),
        }
        assert item == endpoints.all[ordinal]


@settings(max_examples=examples(100), deadline=None)
@given(filters, st.sampled_from(("", USED[0], USED[-1])))
def test_a_count_of_a_facet_is_the_total_with_that_filter(
    snapshot: Snapshot, wanted: EndpointFilters, query: str
) -> None:
    def total(**fields: Any) -> int:
        values = {name: getattr(wanted, name) for name in wanted.__struct_fields__} | fields
        return rank_endpoints(snapshot, query or None, 1, 0, EndpointFilters(**values)).total

    wanted = EndpointFilters(
        method=wanted.method,
        category=wanted.category,
        tag=wanted.tag,
        provider=wanted.provider,
        max_price=wanted.max_price,
        facets=ENDPOINT_FACETS,
    )
    hits = rank_endpoints(snapshot, query or None, 1, 0, wanted)
    assert hits.facets is not None
    assert hits.facets.keys() == set(ENDPOINT_FACETS)
    for value in hits.facets["service"]:
        assert total(service=(value["value"],)) == value["count"]
    for name in ("method", "category", "tag", "provider"):
        if name not in texts_of(wanted):
            for value in hits.facets[name]:
                assert total(**{name: (value["value"],)}) == value["count"]
    if wanted.max_price is None:
        for name in ("network", "scheme"):
            for value in hits.facets[name]:
                assert total(**{name: (value["value"],)}) == value["count"]


def test_parts_of_the_listing_are_indexed_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_lines(tmp_path / "source.jsonl", make_sources(random.Random(8)))  # noqa: S311  # the same
    folders = []
    monkeypatch.setattr("indexer.build.SMALL", 0)
    for smallest in (10**6, 1):
        monkeypatch.setattr("indexer.derive.deriving.SMALLEST_PART", smallest)
        artifacts = tmp_path / str(smallest)
        assert main(["build", source, "--out", str(artifacts), "--jobs", "3", "--quiet"]) == 0
        (folder,) = (artifacts / "snapshots").iterdir()
        folders.append(folder)
    one, parts = folders
    assert served_files(one) == served_files(parts)


def served_files(snapshot: Path) -> dict[str, bytes]:
    """Return the files that the service reads, but for the manifest."""
    names = {*read_manifest(snapshot).files}
    return {name: (snapshot / name).read_bytes() for name in sorted(names)}


def test_facets_leave_out_services_without_endpoints(artifacts: Path, build: Build) -> None:
    records = [
        service("a", category="Empty", tags=["none"], endpoints=[]),
        service("b", category="Data", tags=["some"]),
        service("c", category="Last", tags=["none"], endpoints=[]),
    ]
    for published, expected in ((records, [{"value": "Data", "count": 1}]), (records[:1], [])):
        assert build(published) == 0
        filters = EndpointFilters(facets=("category",))
        hits = rank_endpoints(open_snapshot(artifacts), None, 1, 0, filters)
        assert hits.facets == {"category": expected}


def test_schemes_and_networks_are_counted_alike_for_services_and_their_endpoints(
    artifacts: Path, build: Build
) -> None:
    values = {
        "scheme": ["bsc", "bnb", "Exact", " exact", "Exact", "exact ", "upto"],
        "network": ["bsc", "bnb", "Base", "eip155:8453", "Weird-NET", "weird_net", "Weird-NET"],
    }
    expected = {
        "scheme": [("Exact", 4), ("bnb", 1), ("bsc", 1), ("upto", 1)],
        "network": [("Weird-NET", 3), ("BNB Chain", 2), ("Base", 2)],
    }
    for name, given_values in values.items():
        records = [
            service(f"s{number}", endpoints=[endpoint(**{name: value})])
            for number, value in enumerate(given_values)
        ]
        assert build(records) == 0
        snapshot = open_snapshot(artifacts)
        facets = {name: [{"value": value, "count": count} for value, count in expected[name]]}
        hits = rank_endpoints(snapshot, None, 1, 0, EndpointFilters(facets=(name,)))
        assert hits.facets == facets
        assert snapshot.list(filters=Filters(facets=(name,))).facets == facets


def test_prices_are_compared_in_us_dollars_where_they_are_known(
    artifacts: Path, build: Build
) -> None:
    prices = [("1", "USDC"), ("1", "usd"), ("1", "EURC"), ("3", "USDC"), ("", "USDC")]
    endpoints = [each for amount, _ in prices for each in priced(amount)[0]["endpoints"]]
    for each, (_, currency) in zip(endpoints, prices, strict=True):
        each["pricing"]["currency"] = currency
    assert build([service("a", endpoints=endpoints)]) == 0
    snapshot = open_snapshot(artifacts)
    offers = snapshot.offers
    filters = EndpointFilters(max_usd_price=2, per_service=0)
    assert list(rank_endpoints(snapshot, None, 9, 0, filters).ordinals) == [0, 1]
    assert offers.cheapest_terms(3, EndpointFilters()) == (3.0, 3.0, "USDC", "", "")
    terms = offers.cheapest_terms(2, EndpointFilters())
    assert terms is not None
    assert isnan(terms.usd_price)
    assert terms[1:] == (1.0, "EURC", "", "")
    assert offers.cheapest_terms(0, EndpointFilters(network=("base",))) is None


def test_a_lone_surrogate_is_a_value_that_nothing_has(snapshot: Snapshot) -> None:
    for name in ("asset", "pay_to", "network", "method", "service"):
        values: dict[str, Any] = {name: ("\ud800",)}
        filters = EndpointFilters(**values)
        assert rank_endpoints(snapshot, None, 1, 0, filters).total == 0
