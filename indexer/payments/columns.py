"""Columns of payment files: recognised names, required columns, and the select list of all."""

from __future__ import annotations

from difflib import get_close_matches

from indexer.errors import SourceError
from indexer.payments.files import PaymentInput, sql_text
from indexer.text import one_line

# Column to recognised names. Where a file has several of them, the first listed here counts.
COLUMNS = {
    "id": ("id",),
    "chain": ("chain", "network"),
    "tx_hash": ("tx_hash", "transaction_hash"),
    "log_index": ("log_index",),
    "block_timestamp": ("block_timestamp", "block_time"),
    "sender": ("sender", "from_addr", "from_address", "payer"),
    "recipient": ("recipient", "to_addr", "to_address", "merchant"),
    "amount": ("amount",),
    "decimals": ("decimals",),
    "dollars": ("amount_usdc", "value_usd"),
    "success": ("success",),
    "address": ("address",),
    "transaction_from": ("transaction_from", "facilitator_addr", "facilitator"),
    "provider": ("provider",),
    "facilitator_id": ("facilitator_id",),
    "token_address": ("token_address",),
}
# Groups of columns; a file needs a column of each group.
REQUIRED = (("chain",), ("block_timestamp",), ("sender",), ("recipient",), ("amount", "dollars"))
MAX_LISTED = 400  # characters of a header that an error message quotes


def column_names(source: PaymentInput) -> dict[str, tuple[str, ...]]:
    """Return the names that each column may have in a file: the given one, or the recognised ones.

    Raises SourceError when a name is given for an unknown column.
    """
    for column in source.columns:
        if column not in COLUMNS:
            (nearest,) = get_close_matches(column, COLUMNS, 1, cutoff=0)
            raise SourceError(
                f"{source.name}: payments have no column {one_line(column)} to map; "
                f"the nearest is {nearest}"
            )
    return COLUMNS | {column: (name,) for column, name in source.columns.items()}


def find_columns(source: PaymentInput, names: list[str]) -> dict[str, str]:
    """Map each recognised column to the name that a file with these names has for it.

    Raises SourceError when the file lacks a given name.
    """
    found = {
        column: name
        for column, aliases in column_names(source).items()
        for name in reversed(aliases)
        if name in names
    }
    for column, name in source.columns.items():
        if column not in found:
            raise _missing(source, f"{one_line(name)} for {column}", names)
    return found


def check_columns(source: PaymentInput, names: list[str]) -> dict[str, str]:
    """Return the columns of a file with these names; raises SourceError when a required one lacks.

    An amount without decimals is no amount where the file has dollars.
    """
    columns = find_columns(source, names)
    for group in REQUIRED:
        is_constant = group == ("chain",) and source.chain
        if columns.keys().isdisjoint(group) and not is_constant:
            aliases = " or ".join(name for column in group for name in COLUMNS[column])
            remedy = "or give --chain" if group == ("chain",) else "to the name in the file"
            raise _missing(source, aliases, names, f"; map it with --column {remedy}")
    if "amount" in columns and "decimals" not in columns:
        if "dollars" not in columns:
            raise SourceError(
                f"{source.name}: amount needs decimals: the file has no column of that name; "
                "map it with --column or give dollars"
            )
        del columns["amount"]
    return columns


def complete(source: PaymentInput, expressions: dict[str, str]) -> dict[str, str]:
    """Return the texts of a file with columns: null where empty, and the chain that is given.

    An empty `success` means failed; a missing column does not.
    """
    texts = {column: f"nullif({text}, '')" for column, text in expressions.items()}
    if source.chain:
        texts.setdefault("chain", sql_text(source.chain))
    if "success" in texts:
        texts["success"] = f"coalesce({texts['success']}, '')"
    return texts


def project(expressions: dict[str, str]) -> str:
    """Return a select list of all COLUMNS; a column without an expression is null."""
    return ",\n    ".join(
        f"{expressions.get(column, 'NULL::VARCHAR')} AS {column}" for column in COLUMNS
    )


def _missing(source: PaymentInput, column: str, names: list[str], remedy: str = "") -> SourceError:
    listed = ", ".join(names)
    if len(listed) > MAX_LISTED:
        listed = f"{listed[:MAX_LISTED]}…"
    where = f"there is no column {column} among {one_line(listed)}"
    return SourceError(f"{source.name}: {where}{remedy}")
