"""Payment columns: the names under which each is recognised, and which a file must have."""

from __future__ import annotations

from indexer.errors import SourceError

# The first of its names that a file has is used.
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
REQUIRED = (("chain",), ("block_timestamp",), ("sender",), ("recipient",), ("amount", "dollars"))


def find_columns(names: list[str]) -> dict[str, str]:
    """The name that a file with these names has for each column that it has."""
    return {
        column: key for column, keys in COLUMNS.items() for key in reversed(keys) if key in names
    }


def check_columns(file: str, names: list[str]) -> None:
    """Raise SourceError when a file with these names lacks a column."""
    given = find_columns(names)
    required = [*REQUIRED, ("decimals",)] if "amount" in given else REQUIRED
    for columns in required:
        if not any(column in given for column in columns):
            wanted = " or ".join(key for column in columns for key in COLUMNS[column])
            among = ", ".join(names)
            among = among if len(among) < 400 else among[:400] + "…"
            raise SourceError(f"{file}: there is no column {wanted} among {among}")


def aliased(texts: dict[str, str]) -> str:
    """These expressions as the columns of a query."""
    return ", ".join(f"{text} AS {column}" for column, text in texts.items())
