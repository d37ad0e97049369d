"""Columns of payment files: recognised names, required columns, and the select list of all."""

from __future__ import annotations

from indexer.errors import SourceError
from indexer.text import one_line

# Column to recognised names. Where a file has several of them, the first listed here counts.
COLUMNS = {
    "id": ("id",),
    "chain": ("chain", "network"),
    "tx_hash": ("tx_hash", "transaction_hash"),
    "log_index": ("log_index",),
    "block_timestamp": ("block_timestamp", "block_time"),
    "sender": ("sender", "from_addr", "from_address"),
    "recipient": ("recipient", "to_addr", "to_address"),
    "amount": ("amount",),
    "decimals": ("decimals",),
    "dollars": ("amount_usdc", "value_usd"),
    "success": ("success",),
    "address": ("address",),
    "transaction_from": ("transaction_from", "facilitator_addr"),
    "provider": ("provider",),
    "facilitator_id": ("facilitator_id",),
    "token_address": ("token_address",),
}
# Groups of columns; a file needs a column of each group.
REQUIRED = (("chain",), ("block_timestamp",), ("sender",), ("recipient",), ("amount", "dollars"))
MAX_LISTED = 400  # characters of a header that an error message quotes


def find_columns(names: list[str]) -> dict[str, str]:
    """Map each recognised column to the name that a file with these names has for it."""
    return {
        column: name
        for column, aliases in COLUMNS.items()
        for name in reversed(aliases)
        if name in names
    }


def check_columns(file: str, names: list[str]) -> None:
    """Raise SourceError when a file with these names lacks a required column."""
    columns = find_columns(names)
    required = [*REQUIRED, ("decimals",)] if "amount" in columns else REQUIRED
    for group in required:
        if columns.keys().isdisjoint(group):
            missing = " or ".join(name for column in group for name in COLUMNS[column])
            listed = ", ".join(names)
            if len(listed) > MAX_LISTED:
                listed = f"{listed[:MAX_LISTED]}…"
            raise SourceError(f"{file}: there is no column {missing} among {one_line(listed)}")


def project(expressions: dict[str, str]) -> str:
    """Return a select list of all COLUMNS; a column without an expression is null."""
    return ",\n    ".join(
        f"{expressions.get(column, 'NULL::VARCHAR')} AS {column}" for column in COLUMNS
    )
