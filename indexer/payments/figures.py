"""Figures: the public schema of demand, computed from what was counted."""

from __future__ import annotations

from typing import Any

import msgspec

from indexer.payments.demand import CreditedDemand, ServiceDemand
from indexer.snapshot.demand import CountedDemand
from indexer.snapshot.ecosystem import ATTO_IN_MICRO
from indexer.x402.endpoints import decode_endpoints
from service.schema.demand import (
    Amounts,
    DemandFigures,
    EndpointDemand,
    Shares,
    StoredDemand,
)

DIGITS = 6
"""Decimal digits of shares."""


def describe_demand(text: bytes, demand: ServiceDemand) -> CountedDemand:
    """Return the demand of a service as its public schema has it, given its record."""
    addresses = decode_endpoints(text) if demand.endpoints else []
    endpoints = [
        EndpointDemand(url=addresses[number].url, method=addresses[number].method, **_figures(each))
        for number, each in demand.endpoints.items()
    ]
    stored = StoredDemand(endpoints=endpoints, **_figures(demand.whole))
    payers = demand.whole.counted if demand.whole.payments else None
    own = {number: each.counted for number, each in demand.endpoints.items() if each.payments}
    return CountedDemand(msgspec.json.encode(stored), payers, own)


def _figures(demand: CreditedDemand) -> dict[str, Any]:
    """Return the values of `DemandFigures`, by field."""
    payments, volume = demand.payments, demand.volume
    figures = DemandFigures(
        payments=payments,
        volume=_micro(volume),
        payers=demand.payers,
        returning_payers=demand.returning,
        active_days=demand.active_days,
        top_payer_share=Shares(
            _ratio(demand.top_payments, payments), _ratio(demand.top_volume, volume)
        ),
        self_payments=demand.self_payments,
        cycle_payments=demand.cycle_payments,
        without_top_payer=Amounts(
            payments - demand.top_payments, _micro(volume - demand.top_volume)
        ),
        price_unmatched=demand.unmatched,
    )
    return msgspec.structs.asdict(figures)


def _micro(atto: int) -> int:
    return (atto + ATTO_IN_MICRO // 2) // ATTO_IN_MICRO


def _ratio(part: int, whole: int) -> float:
    return min(round(part / whole, DIGITS), 1.0) if whole else 0.0
