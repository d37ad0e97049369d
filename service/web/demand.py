"""The demand of services as the texts and bars that the templates show."""

from __future__ import annotations

import msgspec

from service.schema.demand import PopularService, StoredDemand
from service.snapshot import Snapshot
from service.web.ecosystem import format_count, format_money

_demand = msgspec.json.Decoder(StoredDemand)
_popular = msgspec.json.Decoder(list[PopularService])


def demand_facts(snapshot: Snapshot, ordinal: int) -> list[tuple[str, str]]:
    """Return the facts of the payments for a service in 30 days, each with its label."""
    demand = _demand.decode(snapshot.demand.of_service(ordinal))
    if not demand.payments and not demand.self_payments:
        return []
    rest = demand.without_top_payer
    returning = f"{format_count(demand.returning_payers)} came again"
    facts = [
        ("Payments", f"{format_count(demand.payments)}, {format_money(demand.volume)}"),
        ("Payers", f"{format_count(demand.payers)}, {returning}"),
        ("Without the top payer", f"{format_count(rest.calls)}, {format_money(rest.volume)}"),
    ]
    apart = (
        ("From itself", demand.self_payments),
        ("Also paid back", demand.cycle_payments),
        ("Of another price", demand.price_unmatched),
    )
    return facts + [(label, format_count(count)) for label, count in apart if count]


def popular_services(snapshot: Snapshot) -> list[PopularService]:
    """Return the services with most payments in 30 days, most first."""
    return _popular.decode(snapshot.demand.popular)
