"""Credit of payments: equal to a brute force count, and added where a record states none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from duckdb import DuckDBPyConnection
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.decisions import Decisions, DecisionTable
from indexer.index.popularity import Payers
from indexer.payments.claims import NO_ENDPOINT, Claim
from indexer.payments.credit import count_credits
from indexer.payments.demand import CreditedDemand, ServiceDemand
from indexer.probes.verdicts import BATCH
from service.arrays.texts import text_hash
from service.schema.demand import DemandFigures
from tests.support.running import Json, endpoint, examples, service

WINDOW = 30 * 24 * 3_600_000  # milliseconds
NEWEST = int(datetime(2026, 5, 7, 10, 16, 51, tzinfo=UTC).timestamp() * 1000)
CENT, DIME = Decimal("0.01"), Decimal("0.10")
USDC, USDT = "0xUsdc", "0xUsdt"
INSERT = """
INSERT INTO payments
SELECT row, 0, paid_at, atto::HUGEINT, NULL, NULL, canonical_address(payer),
    canonical_address(payee), network, canonical_address(token)
FROM (SELECT unnest(?::STRUCT(
    row BIGINT, paid_at BIGINT, atto VARCHAR, payer VARCHAR, payee VARCHAR, network VARCHAR,
    token VARCHAR
)[], recursive := true))
"""


class Paid(NamedTuple):
    """A payment, `age` milliseconds before the newest."""

    age: int = 0
    payer: str = "alice"
    payee: str = "0xa"
    network: str = "base"
    token: str | None = USDC
    amount: Decimal = CENT


class Usage(NamedTuple):
    """The payments, the payers and the time of the newest payment."""

    calls: int
    payers: int
    last: int


class ServiceUsage(NamedTuple):
    """The usage of a service, and that of its endpoints."""

    whole: Usage
    endpoints: dict[int, Usage]


Services = Sequence[Sequence[Claim]]
Counted = tuple[list[ServiceUsage | None], int, int]
"""The usage of each service, and the numbers of credited and of shared payments."""


def claim(amount: Decimal | None = CENT, number: int = 0, **fields: Any) -> Claim:
    """Return a claim to `0xA` on Base in an unknown token."""
    plain = Claim(number, "a.example", "a.example", "0xA", "base", "", amount, 0)
    return plain._replace(**fields)


addresses = st.sampled_from(("0xA", "0xa", "0xB", "Sol", "sol"))
amounts = st.sampled_from((CENT, DIME, Decimal(0)))
payments = st.lists(
    st.builds(
        Paid,
        st.sampled_from((0, 1, WINDOW - 1, WINDOW, 2 * WINDOW)),
        st.sampled_from(("alice", "bob", "0xA", "Sol")),
        addresses,
        st.sampled_from(("base", "solana")),
        st.sampled_from((None, USDC, USDT)),
        amounts,
    ),
    max_size=20,
)
claims = st.builds(
    Claim,
    st.integers(NO_ENDPOINT, 2),
    st.just("a.example"),
    st.just("a.example"),
    addresses,
    st.sampled_from(("", "base", "solana", "unheard of")),
    st.sampled_from(("", USDC, USDC.lower(), USDT)),
    st.one_of(st.none(), amounts, st.sampled_from((Decimal("1e-19"), Decimal("1e400")))),
    st.integers(0, 2),
)
catalogues = st.lists(st.lists(claims, max_size=4), max_size=5)


def credit(
    database: DuckDBPyConnection,
    paid: Sequence[Paid],
    services: Services,
    decisions: Decisions | None = None,
) -> tuple[list[ServiceDemand | None], int, int]:
    """Return the demand of each service, and the numbers of credited and of shared payments."""
    database.execute("DELETE FROM payments")
    rows = [
        each._asdict()
        | {"row": row, "paid_at": NEWEST - each.age, "atto": str(int(each.amount * 10**18))}
        for row, each in enumerate(paid)
    ]
    database.execute(INSERT, [rows])
    counted = count_credits(database, iter(services), decisions or Decisions())
    return list(counted.demand), counted.credited, counted.shared


def count(database: DuckDBPyConnection, paid: Sequence[Paid], services: Services) -> Counted:
    demands, credited, shared = credit(database, paid, services)
    usages = [
        ServiceUsage(
            usage(each.whole),
            {n: usage(one) for n, one in each.endpoints.items() if one.figures.payments},
        )
        if each and each.whole.figures.payments
        else None
        for each in demands
    ]
    return usages, credited, shared


def usage(demand: CreditedDemand) -> Usage:
    return Usage(demand.figures.payments, demand.figures.payers, demand.last)


def demand(payments: int, payers: int, last: int) -> CreditedDemand:
    return CreditedDemand(DemandFigures(payments=payments, payers=payers), [], Payers(0, 0), last)


def calls(
    database: DuckDBPyConnection, paid: Sequence[Paid], services: Services
) -> list[dict[int | str, int]]:
    """Return the calls of each service, and those of its endpoints by number."""
    return [
        {"calls": usage.whole.calls} | {n: each.calls for n, each in usage.endpoints.items()}
        if usage
        else {"calls": 0}
        for usage in count(database, paid, services)[0]
    ]


class Attribution(NamedTuple):
    """The payments of one service: in all, those of its endpoints, and those counted apart."""

    whole: list[Paid]
    parts: dict[int, list[Paid]]
    selves: list[Paid]
    unmatched: list[Paid]


def attribute(paid: Sequence[Paid], services: Services) -> tuple[list[Attribution], int]:
    """Find the sellers of payments by brute force; returns the number of shared payments, too."""
    newest = min((payment.age for payment in paid), default=0)
    found = [Attribution([], {}, [], []) for _ in services]
    undecided = 0
    for payment in paid:
        best = best_claims(payment, services)
        if payment.age - newest >= WINDOW or not best:
            continue
        fitting = fit(payment, best)
        is_self = fold(payment.payer) == fold(payment.payee)
        claimants = {number for number, _ in best}
        sellers = claimants if len(claimants) == 1 else {number for number, _ in fitting}
        if len(sellers) == 1:
            (seller,) = sellers
            own = found[seller]
            (own.selves if is_self else own.whole).append(payment)
            if not is_self:
                attribute_to_endpoint(payment, seller, own, best, fitting)
        elif not is_self:
            undecided += 1
    return found, undecided


def best_claims(payment: Paid, services: Services) -> list[tuple[int, Claim]]:
    of_payee = [
        (number, each)
        for number, own in enumerate(services)
        for each in own
        if fold(each.payee) == fold(payment.payee) and each.network in ("", payment.network)
    ]
    return [pair for pair in of_payee if pair[1].trust == max(c.trust for _, c in of_payee)]


def attribute_to_endpoint(
    payment: Paid,
    seller: int,
    found: Attribution,
    best: list[tuple[int, Claim]],
    fitting: list[tuple[int, Claim]],
) -> None:
    if not fitting:
        found.unmatched.append(payment)
    endpoints = {each.endpoint for number, each in best if number == seller}
    if len(endpoints) > 1:
        endpoints = {each.endpoint for number, each in fitting if number == seller}
    if len(endpoints) == 1 and endpoints != {NO_ENDPOINT}:
        found.parts.setdefault(endpoints.pop(), []).append(payment)


def count_by_brute_force(paid: Sequence[Paid], services: Services) -> Counted:
    attributions, undecided = attribute(paid, services)
    usages = [
        ServiceUsage(total(each.whole), {number: total(own) for number, own in each.parts.items()})
        if each.whole
        else None
        for each in attributions
    ]
    return usages, sum(len(each.whole) for each in attributions), undecided


def fit(payment: Paid, claims: list[tuple[int, Claim]]) -> list[tuple[int, Claim]]:
    tokens = {"", fold(payment.token or "")}
    in_token = [
        (number, each)
        for number, each in claims
        if payment.token is None or fold(each.asset) in tokens
    ]
    exact = [pair for pair in in_token if pair[1].price == payment.amount]
    return exact or [p for p in in_token if p[1].price is None]


def total(paid: list[Paid]) -> Usage:
    payers = {fold(payment.payer) for payment in paid}
    return Usage(len(paid), len(payers), NEWEST - min(payment.age for payment in paid))


def fold(address: str) -> str:
    return address.lower() if address.startswith("0x") else address


@settings(max_examples=examples(200), deadline=None)
@given(paid=payments, services=catalogues)
def test_credits_equal_a_brute_force_count_that_counts_no_payment_twice(
    database: DuckDBPyConnection, paid: list[Paid], services: Services
) -> None:
    counted = usages, credited, shared = count(database, paid, services)
    assert counted == count_by_brute_force(paid, services)
    newest = min((payment.age for payment in paid), default=0)
    assert sum(usage.whole.calls for usage in usages if usage) == credited
    assert credited + shared <= sum(payment.age - newest < WINDOW for payment in paid)
    for usage in filter(None, usages):
        assert sum(each.calls for each in usage.endpoints.values()) <= usage.whole.calls
        assert all(each.payers <= usage.whole.payers for each in usage.endpoints.values())


@settings(max_examples=examples(50), deadline=None)
@given(paid=payments, services=catalogues, others=catalogues)
def test_claims_of_a_lower_rank_change_no_credit_of_better_ones(
    database: DuckDBPyConnection, paid: list[Paid], services: Services, others: Services
) -> None:
    lower = [[each._replace(trust=each.trust - 3) for each in own] for own in others]
    alone, credited, shared = count(database, paid, services)
    usages, credited_of_all, shared_of_all = count(database, paid, [*services, *lower])
    assert usages[: len(services)] == alone
    assert (credited_of_all >= credited, shared_of_all >= shared) == (True, True)


@settings(max_examples=examples(50), deadline=None)
@given(paid=payments, services=catalogues, data=st.data())
def test_credits_do_not_depend_on_the_order_of_claims(
    database: DuckDBPyConnection, paid: list[Paid], services: Services, data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(services))))
    permuted = [data.draw(st.permutations(services[number])) for number in order]
    usages, *totals = count(database, paid, services)
    assert count(database, paid, permuted) == ([usages[number] for number in order], *totals)


def test_a_service_that_claims_alone_is_credited_whatever_was_paid(
    database: DuckDBPyConnection,
) -> None:
    paid = [Paid(), Paid(amount=DIME), Paid(token=USDT), Paid(token=None)]
    assert calls(database, paid, [[claim(asset=USDC)], []]) == [{"calls": 4, 0: 4}, {"calls": 0}]


def test_a_service_of_a_lower_rank_takes_nothing_by_naming_the_payee_of_another(
    database: DuckDBPyConnection,
) -> None:
    merchant, parasite = [claim(DIME, trust=1)], [claim(CENT), claim(CENT, 1, network="")]
    assert calls(database, [Paid(), Paid()], [parasite, merchant]) == [
        {"calls": 0},
        {"calls": 2, 0: 2},
    ]


def test_a_claim_that_counted_counts_in_any_spelling_and_as_earlier_releases_stored_it(
    database: DuckDBPyConnection,
) -> None:
    mine, other = claim(payee="0xAB"), claim(payee="0xab", host="b.example")
    for place in (claim(payee="0xaB").place, mine.earlier_place):
        decisions = Decisions(DecisionTable(claims=[text_hash(place)]))
        demands, *numbers = credit(database, [Paid(payee="0xab")], [[mine], [other]], decisions)
        assert [each.whole.figures.payments if each else 0 for each in demands] == [1, 0]
        assert numbers == [1, 0]


def test_token_and_exact_amount_decide_among_services(database: DuckDBPyConnection) -> None:
    services = [[claim(CENT, asset=USDC)], [claim(CENT, asset=USDT)], [claim(DIME)]]
    paid = [Paid(), Paid(token=USDT), Paid(token=USDT), Paid(amount=DIME)]
    assert [each["calls"] for each in calls(database, paid, services)] == [1, 2, 1]


@pytest.mark.parametrize(
    "paid", [Paid(token=None), Paid(amount=Decimal("0.011")), Paid(token="0xother")]
)
def test_a_payment_that_decides_nothing_is_shared(database: DuckDBPyConnection, paid: Paid) -> None:
    services = [[claim(asset=USDC)], [claim(asset=USDT)]]
    assert count(database, [paid, Paid()], services) == (
        [ServiceUsage(Usage(1, 1, NEWEST), {0: Usage(1, 1, NEWEST)}), None],
        1,
        1,
    )


def test_credits_are_counted_for_more_services_than_a_batch(database: DuckDBPyConnection) -> None:
    services = [[claim(payee=f"0x{n}")] if n % 2 else [] for n in range(5 * BATCH // 2)]
    paid = [Paid(payee=f"0x{2 * BATCH - 1}"), Paid(payee="0x1")]
    usages, *totals = count(database, paid, services)
    assert [number for number, usage in enumerate(usages) if usage] == [1, 2 * BATCH - 1]
    assert (len(usages), totals) == (len(services), [2, 0])


def test_a_busy_payee_that_many_services_claim_is_counted_once(
    database: DuckDBPyConnection,
) -> None:
    services = [[claim(CENT * (n + 1), payee="0xbusy")] for n in range(2 * BATCH)]
    paid = [Paid(payee="0xbusy", amount=CENT * n) for n in range(4)]
    usages, *totals = count(database, paid, services)
    assert ([n for n, usage in enumerate(usages) if usage], totals) == ([0, 1, 2], [3, 1])


def record(**fields: object) -> Json:
    return service(endpoints=[endpoint(), endpoint() | fields])


def fill(text: str) -> Json:
    usage = ServiceDemand(demand(7, 3, NEWEST), {1: demand(5, 2, NEWEST - 1)})
    filled: Json = json.loads(usage.fill_usage(text.encode()))
    return filled


@pytest.mark.parametrize("absent", [{}, {"quality": None}, {"quality": {}}])
def test_missing_quality_is_filled_in(absent: Json) -> None:
    given = record(**absent)
    filled = fill(json.dumps(given | absent))
    assert filled.pop("quality") == {
        "totalCalls": 7,
        "uniquePayers": 3,
        "lastCalledAt": "2026-05-07T10:16:51.000Z",
    }
    assert filled["endpoints"][1].pop("quality") == {
        "l30DaysTotalCalls": "5",
        "l30DaysUniquePayers": "2",
    }
    for shape in (given, given["endpoints"][1]):
        shape.pop("quality", None)
    assert filled == given


def test_given_quality_stays() -> None:
    given = record(quality={"l30DaysTotalCalls": "1"})
    filled = fill(json.dumps(given | {"quality": {"score": 0.5, "totalCalls": 1}}))
    assert filled["endpoints"][1]["quality"] == {
        "l30DaysTotalCalls": "1",
        "l30DaysUniquePayers": "2",
    }
    assert filled["quality"] == {
        "score": 0.5,
        "totalCalls": 1,
        "uniquePayers": 3,
        "lastCalledAt": "2026-05-07T10:16:51.000Z",
    }


def test_unknown_fields_and_numbers_stay_byte_for_byte() -> None:
    verbatim = '"x":123456789012345678901234567890,"y":[1.10,1e400,"\\u00e9"]'
    plain_endpoint = f'{{"url":"u","payTo":7,{verbatim}}}'
    text = f'{{"id":"one",{verbatim},"endpoints":[{{"payTo":"0xA",{verbatim}}},{plain_endpoint}]}}'
    usage = ServiceDemand(demand(7, 3, NEWEST), {0: demand(5, 2, NEWEST)})
    filled = usage.fill_usage(text.encode()).decode()
    assert filled.count(verbatim) == 3
    assert plain_endpoint in filled
