"""Demand: each figure equals a slow reference written from the documented formulas."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from decimal import Decimal
from fractions import Fraction

import msgspec
import numpy as np
from duckdb import DuckDBPyConnection
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.index.popularity import popularity_of
from indexer.payments.demand import ServiceDemand
from service.schema.demand import Amounts, DemandFigures, Shares, StoredDemand
from tests.indexer.payments.test_credit import (
    CENT,
    DIME,
    NEWEST,
    Paid,
    Services,
    attribute,
    catalogues,
    claim,
    credit,
    fold,
)
from tests.support.running import endpoint, examples

DAY = 24 * 3_600_000
WINDOW = 30 * DAY
payments = st.lists(
    st.builds(
        Paid,
        st.sampled_from((0, 1, DAY, DAY + 1, 9 * DAY, WINDOW - 1, WINDOW)),
        st.sampled_from(("alice", "bob", "0xA", "0xB", "Sol")),
        st.sampled_from(("0xA", "0xa", "0xB", "Sol", "0xelsewhere", "alice")),
        st.sampled_from(("base", "solana")),
        st.just(None),
        st.sampled_from((CENT, DIME, Decimal(0), Decimal("1000000000000000.000001"))),
    ),
    max_size=25,
)


def describe(demand: ServiceDemand | None) -> StoredDemand:
    if demand is None:
        return StoredDemand()
    endpoints = [endpoint() | {"method": str(number)} for number in range(3)]
    record = msgspec.json.encode({"endpoints": endpoints})
    return msgspec.json.decode(demand.describe(record).text, type=StoredDemand)


def only_figures(demand: DemandFigures) -> DemandFigures:
    return DemandFigures(
        **{name: getattr(demand, name) for name in DemandFigures.__struct_fields__}
    )


def figures(
    paid: Sequence[Paid],
    pairs: set[tuple[str, str]],
    unmatched: int = 0,
    selves: int = 0,
) -> DemandFigures:
    calls: Counter[str] = Counter()
    volume: dict[str, Decimal] = defaultdict(Decimal)
    days: dict[str, set[int]] = defaultdict(set)
    for payment in paid:
        payer = fold(payment.payer)
        calls[payer] += 1
        volume[payer] += payment.amount
        days[payer].add((NEWEST - payment.age) // DAY)
    whole, dollars = sum(calls.values()), sum(volume.values())
    return DemandFigures(
        payments=whole,
        volume=round(dollars * 10**6),
        payers=len(calls),
        returning_payers=sum(len(own) > 1 for own in days.values()),
        active_days=len(set().union(*days.values())),
        top_payer_share=Shares(share(calls.values()), share(volume.values())),
        self_payments=selves,
        cycle_payments=sum((fold(each.payer), fold(each.payee)) in pairs for each in paid),
        without_top_payer=Amounts(
            whole - max(calls.values(), default=0),
            round((dollars - max(volume.values(), default=Decimal(0))) * 10**6),
        ),
        price_unmatched=unmatched,
    )


def share(parts: Collection[int] | Collection[Decimal]) -> float:
    whole = sum(parts)
    return round(float(Fraction(max(parts)) / Fraction(whole)), 6) if whole else 0.0


def returned(paid: Sequence[Paid]) -> set[tuple[str, str]]:
    """Return the payers and payees who paid each other within the window."""
    newest = min((payment.age for payment in paid), default=0)
    pairs = {(fold(each.payer), fold(each.payee)) for each in paid if each.age - newest < WINDOW}
    return {pair for pair in pairs if pair[::-1] in pairs and pair[0] != pair[1]}


@settings(max_examples=examples(150), deadline=None)
@given(paid=payments, services=catalogues)
def test_each_figure_of_a_service_equals_the_slow_reference(
    database: DuckDBPyConnection, paid: list[Paid], services: Services
) -> None:
    attributions, _ = attribute(paid, services)
    pairs = returned(paid)
    demands, *_ = credit(database, paid, services)
    for demand, (whole, parts, selves, unmatched) in zip(demands, attributions, strict=True):
        stored = describe(demand)
        expected = figures(whole, pairs, len(unmatched), len(selves))
        assert only_figures(stored) == expected
        assert sum(stored.daily) == expected.payments
        assert sum(count > 0 for count in stored.daily) == expected.active_days
        of_endpoints = {int(each.method): each for each in stored.endpoints if each.payments}
        assert of_endpoints.keys() == parts.keys()
        for number, own in of_endpoints.items():
            expected = figures(parts[number], pairs, own.price_unmatched, own.self_payments)
            assert only_figures(own) == expected


@settings(max_examples=examples(50), deadline=None)
@given(paid=payments, services=catalogues, data=st.data())
def test_the_order_of_payments_changes_no_byte(
    database: DuckDBPyConnection, paid: list[Paid], services: Services, data: st.DataObject
) -> None:
    others = data.draw(st.permutations(paid))
    texts = [
        [msgspec.json.encode(describe(each)) for each in credit(database, order, services)[0]]
        for order in (paid, others)
    ]
    assert texts[0] == texts[1]


def demand_of(database: DuckDBPyConnection, paid: Sequence[Paid]) -> ServiceDemand:
    (demand,), *_ = credit(database, paid, [[claim()]])
    assert demand is not None
    return demand


def wallets(count: int, days: int = 1) -> list[Paid]:
    return [Paid(day * DAY, f"0xwallet{number}") for number in range(count) for day in range(days)]


def test_payments_that_a_payee_pays_back_count_nothing(database: DuckDBPyConnection) -> None:
    paid = [Paid(DAY, "0xb", "0xa"), Paid(0, "0xB", "0xA"), Paid(9 * DAY, "0xa", "0xb")]
    demand = demand_of(database, [*paid, *wallets(3, days=2)])
    assert demand.whole.figures.cycle_payments == 2
    assert (demand.whole.figures.payers, demand.whole.counted) == (4, (3, 3))


def test_a_thousand_fresh_wallets_do_not_outdo_fifty_that_return(
    database: DuckDBPyConnection,
) -> None:
    fresh = demand_of(database, wallets(1000)).whole.counted
    loyal = demand_of(database, wallets(50, days=2)).whole.counted
    assert fresh < loyal
    popularity = popularity_of([fresh, loyal])
    assert popularity.order.tolist() == [1, 0]
    fresh_prior, loyal_prior = popularity.prior(np.zeros(2), np.zeros(2)).tolist()
    assert fresh_prior < loyal_prior <= 0.5


def test_amounts_beyond_any_currency_are_counted(database: DuckDBPyConnection) -> None:
    paid = [Paid(payer=f"0x{n}", amount=Decimal(10**17)) for n in range(3)]
    figures = describe(demand_of(database, paid))
    assert figures.volume == 3 * 10**23
    assert figures.top_payer_share == Shares(round(1 / 3, 6), round(1 / 3, 6))


def test_a_hub_that_pays_itself_has_no_demand(database: DuckDBPyConnection) -> None:
    demand = demand_of(database, [Paid(payer="0xA")] * 40)
    assert (demand.whole.figures.payments, demand.whole.figures.self_payments) == (0, 40)
    assert demand.whole.counted == (0, 0)
