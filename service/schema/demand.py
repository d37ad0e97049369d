"""The public schema of demand: the shape of the payments for a service, without a verdict."""

from __future__ import annotations

from msgspec import Struct

from service.schema.values import Proportion, Timestamp, Whole


class Shares(Struct, frozen=True):
    """A figure from 0 to 1, by payments and by dollars."""

    calls: Proportion
    volume: Proportion


class Amounts(Struct, frozen=True):
    """Payments, and millionths of a US dollar."""

    calls: Whole
    volume: Whole


class DemandFigures(Struct, kw_only=True, rename="camel"):
    """The payments of 30 days; all but `selfPayments` leave those of a payee to itself out.

    returning_payers: payers on two UTC days at least
    volume: in millionths of a US dollar
    self_payments: payments of a payee to itself
    cycle_payments: payments that the payee also paid back to their payer
    without_top_payer: the rest without the payer of most payments, and of most dollars
    price_unmatched: payments of an amount that no endpoint asks
    """

    payments: Whole = 0
    volume: Whole = 0
    payers: Whole = 0
    returning_payers: Whole = 0
    active_days: Whole = 0
    top_payer_share: Shares = Shares(0, 0)
    self_payments: Whole = 0
    cycle_payments: Whole = 0
    without_top_payer: Amounts = Amounts(0, 0)
    price_unmatched: Whole = 0


class EndpointDemand(DemandFigures, kw_only=True, rename="camel"):
    """The payments that fit one endpoint alone."""

    url: str
    method: str


class DemandInputs(Struct, kw_only=True, rename="camel"):
    """The payments of all services in the 30 days, and what their files do not show.

    funding_transfers: whether they show who funded the payers
    """

    start: Timestamp | None = None
    end: Timestamp | None = None
    payments: Whole = 0
    networks: list[str] = []
    without_transaction_hash: Whole = 0
    without_log_index: Whole = 0
    without_token: Whole = 0
    funding_transfers: bool = False


class StoredDemand(DemandFigures, kw_only=True, rename="camel"):
    """The payments for a service, and those of its endpoints that have payments of their own.

    daily: payments on the 31 UTC days up to that of the newest payment of all, oldest first
    """

    daily: list[Whole] = []
    endpoints: list[EndpointDemand] = []


class Demand(StoredDemand, kw_only=True, rename="camel"):
    """The payments for a service, with what their files do not show."""

    inputs: DemandInputs


class DemandEnvelope(Struct):
    """The demand of a service."""

    demand: Demand


class PopularService(DemandFigures, kw_only=True, rename="camel"):
    """A service with many payments, for the chart of the ecosystem."""

    id: str
    name: str
