"""The demand of services as the texts and bars that the templates show."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from service.schema.demand import PopularService, StoredDemand
from service.snapshot import Snapshot
from service.web.card import quantity
from service.web.ecosystem import format_count, format_money


class Fact(NamedTuple):
    """A fact of the payments for a service."""

    label: str
    text: str


class PopularRow(NamedTuple):
    """A service with its payments, and those without its top payer, as widths in percent."""

    id: str
    name: str
    payments: str
    rest: str
    payers: str
    width: float
    rest_width: float


_demand = msgspec.json.Decoder(StoredDemand)
_popular = msgspec.json.Decoder(list[PopularService])


def demand_facts(snapshot: Snapshot, ordinal: int) -> list[Fact]:
    """Return the facts of the payments for a service in 30 days, none without payments."""
    demand = _demand.decode(snapshot.demand.of_service(ordinal))
    if not demand.payments and not demand.self_payments:
        return []
    rest = demand.without_top_payer
    facts = [
        Fact("Payments", f"{format_count(demand.payments)}, {format_money(demand.volume)}"),
        Fact("Payers", _payers(demand.payers, demand.returning_payers)),
        Fact("Without the top payer", f"{format_count(rest.calls)}, {format_money(rest.volume)}"),
    ]
    apart = (
        ("From itself", demand.self_payments),
        ("In cycles", demand.cycle_payments),
        ("Of another price", demand.price_unmatched),
        ("Shared with other services", demand.shared),
    )
    return facts + [Fact(label, format_count(count)) for label, count in apart if count]


def popular_rows(snapshot: Snapshot) -> list[PopularRow]:
    """Return the services with most payments in 30 days, most first."""
    services = _popular.decode(snapshot.demand.popular)
    most = max((each.payments for each in services), default=1)
    return [
        PopularRow(
            id=each.id,
            name=each.name,
            payments=quantity(each.payments, "payment"),
            rest=f"{format_count(each.without_top_payer)} without the top payer",
            payers=_payers(each.payers, each.returning_payers, "payer"),
            width=round(100 * each.payments / most, 2),
            rest_width=round(100 * each.without_top_payer / most, 2),
        )
        for each in services
    ]


def _payers(payers: int, returning: int, noun: str = "") -> str:
    text = quantity(payers, noun) if noun else format_count(payers)
    return f"{text}, {format_count(returning)} came again"
