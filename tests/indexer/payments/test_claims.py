"""Claims on payments: which endpoints and listings make them, and how they rank."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from duckdb import DuckDBPyConnection
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.decisions import FILE, Decisions, DecisionTable
from indexer.payments.claims import NO_ENDPOINT, Claim, claims_of_listings, claims_of_record
from indexer.payments.credit import count_credits
from indexer.resources.resource import Resource
from indexer.resources.x402 import read_resource
from tests.support.running import Json, endpoint, service
from tests.support.sources.x402 import SERVER, TEST_USDC, USDC, accept, resource, tool

PLACES = ("https://a.example/", "https://b.example/", "https://a.example:8443/")
NETWORKS = ("", "Base", "Solana")
PAYEES = ("0xA", "0xB")


def text_of(*endpoints: Json) -> bytes:
    return json.dumps(service(endpoints=[*endpoints])).encode()


def paid(url: str = PLACES[0], payee: str = "0xA", network: str = "Base") -> Json:
    return endpoint(network=network) | {"url": url, "payTo": payee}


def listing_of(record: Json) -> Resource:
    return read_resource(json.dumps(record).encode())


Made = list[tuple[Json, int]]
"""Records, each with the trust in its source."""


def decided(
    database: DuckDBPyConnection, made: Made, folder: Path, table: DecisionTable | None = None
) -> DecisionTable:
    """Count the claims of a build; returns the decisions of its snapshot."""
    decisions = Decisions() if table is None else Decisions(table)
    services = [claims_of_record(text_of(each), "own.example", trust) for each, trust in made]
    count_credits(database, services, decisions)
    decisions.write(folder)
    return msgspec.json.decode((folder / FILE).read_bytes(), type=DecisionTable)


def rank(table: DecisionTable, record: Json, trust: int = 0) -> tuple[int, bool]:
    """Return what a claim ranks by in the next build."""
    (claim,) = claims_of_record(text_of(record), "own.example", trust)
    return claim.trust, Decisions(table).has_claim(claim.place)


def test_endpoints_of_a_record_that_name_who_is_paid_make_claims() -> None:
    text = text_of(
        endpoint("0.50", network="Base") | {"payTo": "0xA"},
        endpoint() | {"payTo": None},
        endpoint("0.50", scheme="upto") | {"payTo": "Sol", "url": "not a URL"},
        endpoint("0.50", "EURC", network="eip155:8453") | {"payTo": "0xA"},
        endpoint(),
        *(endpoint() | {"payTo": payee} for payee in (7, ["x"], "")),
    )
    owner, host = "own.example", "api.one.example"
    assert [*claims_of_record(text, owner, 1)] == [
        Claim(0, owner, host, "0xA", "base", "", Decimal("0.5"), 1),
        Claim(2, owner, "", "Sol", "", "", None, 1),
        Claim(3, owner, host, "0xA", "base", "", None, 1),
    ]


def test_entries_of_listings_make_claims_on_the_endpoint_of_their_url_and_method() -> None:
    known = resource(
        "https://a.example/x",
        accept("10000"),
        accept("7", scheme="upto", network="solana", payTo="Sol"),
        accept("7", network="base-sepolia", asset=TEST_USDC),
    )
    unknown = resource("https://a.example:8443/y", accept(None, asset="0xodd"))
    listings = [(0, listing_of(known)), (-1, listing_of(unknown))]
    text = text_of(endpoint(), endpoint() | {"url": "https://a.example/x", "method": ""})
    claims = [*claims_of_listings(text, "own.example", listings)]
    assert [(each.endpoint, each.host, each.trust) for each in claims] == [
        *[(1, "a.example", 0)] * 3,
        (NO_ENDPOINT, "a.example:8443", -1),
    ]
    assert [(each.payee, each.network) for each in claims] == [
        ("0xPay", "base"),
        ("Sol", "solana"),
        ("0xPay", "base-sepolia"),
        ("0xPay", "base"),
    ]
    assert (claims[0].asset.lower(), claims[0].price) == (USDC.lower(), Decimal("0.01"))
    assert [each.price for each in claims[1:]] == [None] * 3


def test_entries_of_a_tool_make_claims_on_its_endpoint_or_else_on_that_of_the_server() -> None:
    server = {"url": SERVER, "method": ""}
    tools = [server | {"tool": name} for name in ("sun", "moon")]
    listings = [(0, listing_of(tool(url=SERVER, name=name))) for name in ("moon", "sun", "tide")]

    def claimed(*endpoints: Json) -> list[int]:
        text = text_of(*(endpoint() | each for each in endpoints))
        return [each.endpoint for each in claims_of_listings(text, "own.example", listings)]

    assert claimed(*tools) == [1, 0, NO_ENDPOINT]
    assert claimed(*tools, server) == [1, 0, 2]
    assert claimed(server | {"tool": 7}) == [0, 0, 0]


@pytest.mark.parametrize("trust", [-1, 0, 1])
def test_a_claim_that_counted_outranks_others_of_its_trust_and_none_of_more(
    trust: int, database: DuckDBPyConnection, tmp_path: Path
) -> None:
    table = decided(database, [(paid(), trust)], tmp_path)
    newcomer = rank(table, paid(PLACES[1]), trust)
    assert newcomer < rank(table, paid(), trust) < rank(table, paid(PLACES[1]), trust + 1)


def test_a_claim_to_any_network_counts_if_none_to_a_network_is_better(
    database: DuckDBPyConnection, tmp_path: Path
) -> None:
    table = decided(database, [(paid(network=""), 1), (paid(PLACES[1]), 0)], tmp_path)
    assert rank(table, paid(network=""))[1]
    assert not rank(table, paid(PLACES[1]))[1]


made = st.lists(
    st.tuples(
        st.builds(
            paid, st.sampled_from(PLACES), st.sampled_from(PAYEES), st.sampled_from(NETWORKS)
        ),
        st.integers(-1, 1),
    ),
    max_size=6,
)


@settings(deadline=None)
@given(made, st.data())
def test_the_claims_that_count_do_not_depend_on_their_order(
    database: DuckDBPyConnection,
    tmp_path_factory: pytest.TempPathFactory,
    records: Made,
    data: st.DataObject,
) -> None:
    folder = tmp_path_factory.mktemp("decisions")
    orders = (records, data.draw(st.permutations(records)))
    first, second = (decided(database, order, folder) for order in orders)
    assert first == second


@settings(deadline=None)
@given(made)
def test_no_claim_counts_where_a_rival_to_its_payee_and_network_is_more_trusted(
    database: DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory, records: Made
) -> None:
    table = decided(database, records, tmp_path_factory.mktemp("decisions"))
    is_any = any(not record["pricing"]["network"] for record, _ in records)
    for record, _ in records:
        own = max(trust for each, trust in records if each == record)
        rivals = max(trust for each, trust in records if compete(record, each))
        _, is_counted = rank(table, record)
        assert is_counted <= (own == rivals)
        assert is_any or is_counted == (own == rivals)


@settings(deadline=None)
@given(made, made)
def test_the_best_claims_are_the_best_of_the_next_build(
    database: DuckDBPyConnection,
    tmp_path_factory: pytest.TempPathFactory,
    before: Made,
    records: Made,
) -> None:
    folder, table = tmp_path_factory.mktemp("decisions"), DecisionTable()
    winners = []
    for each in (before, records, records):
        ranks = [(record, rank(table, record, trust)) for record, trust in each]
        winners.append([best(ranks, payee, "", chain) for payee in PAYEES for chain in NETWORKS])
        table = decided(database, each, folder, table)
    assert winners[1] == winners[2]


def best(ranks: list[tuple[Json, tuple[int, bool]]], payee: str, *networks: str) -> list[Json]:
    """Return the claims of the greatest rank to a payee on one of these networks."""
    fitting = [
        (record, rank)
        for record, rank in ranks
        if record["payTo"] == payee and record["pricing"]["network"] in networks
    ]
    greatest = max((rank for _, rank in fitting), default=None)
    return [record for record, rank in fitting if rank == greatest]


def compete(record: Json, other: Json) -> bool:
    """Whether two claims are to one payee, and to one network or to any."""
    networks = {each["pricing"]["network"] for each in (record, other)}
    return bool(record["payTo"] == other["payTo"] and (len(networks) == 1 or "" in networks))
