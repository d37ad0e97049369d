"""The public schema of payments and their statistics."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from service.schema.values import Timestamp, Whole


class Totals(Struct, kw_only=True):
    """Totals of payments; amounts are in millionths of a US dollar."""

    total_transactions: Whole
    total_amount: Whole
    unique_buyers: Whole
    unique_sellers: Whole


class Overview(Totals, kw_only=True):
    """The totals of one timeframe and the time of the newest payment of the snapshot."""

    latest_block_timestamp: Timestamp | None


class Bucket(Totals, kw_only=True):
    """The totals of one UTC day, or of one hour for a timeframe of one day."""

    bucket_start: Timestamp


class Transaction(Struct, kw_only=True):
    """One payment; 10^`decimals` base units of `amount` make one unit of the token."""

    id: str
    tx_hash: str
    block_timestamp: Timestamp
    sender: str
    recipient: str
    amount: Whole
    decimals: Whole
    chain: str
    address: str | UnsetType = UNSET
    transaction_from: str | UnsetType = UNSET
    provider: str | UnsetType = UNSET
    facilitator_id: str | UnsetType = UNSET
    log_index: int | UnsetType = UNSET
    token_address: str | UnsetType = UNSET


class OverviewJson(Struct):
    """The wrapper that existing clients expect."""

    json: Overview


class OverviewEnvelope(Struct):
    """The overview of a timeframe."""

    overview: OverviewJson


class StatsJson(Struct):
    """The wrapper that existing clients expect."""

    json: list[Bucket]


class StatsEnvelope(Struct):
    """The series of a timeframe, oldest bucket first, without gaps."""

    stats: StatsJson


class TransactionPage(Struct, rename="camel"):
    """One page of payments, newest first."""

    items: list[Transaction]
    page: Whole
    has_next_page: bool


class TransactionsJson(Struct):
    """The wrapper that existing clients expect."""

    json: TransactionPage


class TransactionsEnvelope(Struct):
    """The newest payments."""

    transactions: TransactionsJson
