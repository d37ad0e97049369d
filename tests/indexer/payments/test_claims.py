"""Claims on payments: which endpoints and listings make them, and how they rank."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.payments.claims import Claims
from indexer.payments.credit import NO_ENDPOINT, Claim
from indexer.resources.resource import Resource
from indexer.resources.x402 import read_resource
from indexer.sources.decisions import FILE, Decisions, DecisionTable
from tests.support.running import Json, endpoint, service
from tests.support.sources.x402 import TEST_USDC, USDC, accept, resource

PLACES = ("https://a.example/", "https://b.example/", "https://a.example:8443/")
NETWORKS = ("", "Base", "Solana")
PAYEES = ("0xA", "0xB")


def text_of(*endpoints: Json) -> bytes:
    return json.dumps(service(endpoints=[*endpoints])).encode()


def paid(url: str = PLACES[0], payee: str = "0xA", network: str = "Base") -> Json:
    return endpoint(network=network) | {"url": url, "payTo": payee}


def listing_of(record: Json) -> Resource:
    return read_resource(json.dumps(record).encode())


def served(folder: Path, claims: Claims, decisions: Decisions) -> DecisionTable:
    """Settle the claims of a build; returns the decisions of its snapshot."""
    claims.decide()
    decisions.write(folder)
    return msgspec.json.decode((folder / FILE).read_bytes(), type=DecisionTable)


def rank(claims: Claims, record: Json, trust: int = 0) -> int:
    (claim,) = claims.of_record(text_of(record), "own.example", trust)
    return claim.rank


def test_endpoints_of_a_record_that_name_who_is_paid_make_claims() -> None:
    text = text_of(
        endpoint("0.50", network="Base") | {"payTo": "0xA"},
        endpoint() | {"payTo": None},
        endpoint("", "USD", scheme="upto") | {"payTo": "Sol", "url": "not a URL"},
        endpoint("0.50", "EURC", network="eip155:8453") | {"payTo": "0xA"},
        endpoint(),
        *(endpoint() | {"payTo": payee} for payee in (7, ["x"], "")),
    )
    host = "api.one.example"
    assert [*Claims(Decisions()).of_record(text, "own.example", 1)] == [
        Claim(0, host, "0xA", "base", "", Decimal("0.5"), is_exact=True, rank=2),
        Claim(2, "", "Sol", "", "", None, is_exact=False, rank=2),
        Claim(3, host, "0xA", "base", "", None, is_exact=True, rank=2),
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
    claims = [*Claims(Decisions()).of_listings(text, "own.example", listings)]
    assert [(each.endpoint, each.host, each.rank) for each in claims] == [
        *[(1, "a.example", 0)] * 3,
        (NO_ENDPOINT, "a.example:8443", -2),
    ]
    assert [(each.payee, each.network, each.is_exact) for each in claims] == [
        ("0xPay", "base", True),
        ("Sol", "solana", False),
        ("0xPay", "base-sepolia", True),
        ("0xPay", "base", True),
    ]
    assert (claims[0].asset.lower(), claims[0].amount) == (USDC.lower(), Decimal("0.01"))
    assert [each.amount for each in claims[1:]] == [None] * 3


@pytest.mark.parametrize("trust", [-1, 0, 1])
def test_a_claim_that_counted_outranks_others_of_its_trust_and_none_of_more(
    trust: int, tmp_path: Path
) -> None:
    first = Decisions()
    claims = Claims(first)
    rank(claims, paid(), trust)
    later = Claims(Decisions(served(tmp_path, claims, first)))
    newcomer = rank(later, paid(PLACES[1]), trust)
    assert newcomer < rank(later, paid(), trust) < rank(later, paid(PLACES[1]), trust + 1)


def test_a_claim_to_any_network_counts_if_none_to_a_network_is_better(tmp_path: Path) -> None:
    first = Decisions()
    claims = Claims(first)
    rank(claims, paid(network=""), 1)
    rank(claims, paid(PLACES[1]), 0)
    table = served(tmp_path, claims, first)
    later = Claims(Decisions(table))
    assert (rank(later, paid(network=""), 0), rank(later, paid(PLACES[1]), 0)) == (1, 0)


made = st.lists(
    st.tuples(
        st.builds(
            paid, st.sampled_from(PLACES), st.sampled_from(PAYEES), st.sampled_from(NETWORKS)
        ),
        st.integers(-1, 1),
    ),
    max_size=6,
)


@given(made, st.data())
def test_the_claims_that_count_do_not_depend_on_their_order(
    tmp_path_factory: pytest.TempPathFactory, records: list[tuple[Json, int]], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("decisions")
    tables = []
    for order in (records, data.draw(st.permutations(records))):
        decisions = Decisions()
        claims = Claims(decisions)
        for record, trust in order:
            rank(claims, record, trust)
        tables.append(served(folder, claims, decisions))
    assert tables[0] == tables[1]


@given(made)
def test_no_claim_counts_where_a_rival_to_its_payee_and_network_is_more_trusted(
    tmp_path_factory: pytest.TempPathFactory, records: list[tuple[Json, int]]
) -> None:
    decisions = Decisions()
    claims = Claims(decisions)
    for record, trust in records:
        rank(claims, record, trust)
    later = Claims(Decisions(served(tmp_path_factory.mktemp("decisions"), claims, decisions)))
    is_any = any(not record["pricing"]["network"] for record, _ in records)
    for record, _ in records:
        own = max(trust for each, trust in records if each == record)
        rivals = max(trust for each, trust in records if compete(record, each))
        is_counted = bool(rank(later, record))
        assert is_counted <= (own == rivals)
        assert is_any or is_counted == (own == rivals)


@given(made, made)
def test_the_best_claims_are_the_best_of_the_next_build(
    tmp_path_factory: pytest.TempPathFactory,
    before: list[tuple[Json, int]],
    records: list[tuple[Json, int]],
) -> None:
    folder, table = tmp_path_factory.mktemp("decisions"), DecisionTable()
    winners = []
    for each in (before, records, records):
        decisions = Decisions(table)
        claims = Claims(decisions)
        ranks = [(record, rank(claims, record, trust)) for record, trust in each]
        winners.append([best(ranks, payee, "", chain) for payee in PAYEES for chain in NETWORKS])
        table = served(folder, claims, decisions)
    assert winners[1] == winners[2]


def best(ranks: list[tuple[Json, int]], payee: str, *networks: str) -> list[Json]:
    """Return the claims of the greatest rank to a payee on one of these networks."""
    fitting = [
        (record, rank)
        for record, rank in ranks
        if record["payTo"] == payee and record["pricing"]["network"] in networks
    ]
    greatest = max((rank for _, rank in fitting), default=0)
    return [record for record, rank in fitting if rank == greatest]


def compete(record: Json, other: Json) -> bool:
    """Whether two claims are to one payee, and to one network or to any."""
    networks = {each["pricing"]["network"] for each in (record, other)}
    return bool(record["payTo"] == other["payTo"] and (len(networks) == 1 or "" in networks))
