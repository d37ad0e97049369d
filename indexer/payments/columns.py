"""Columns of payment files: recognised names, required columns, and guesses for missing ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from indexer.errors import SourceError
from indexer.options import SourceOptions
from indexer.text import one_line

# Column to recognised names, also those of block explorers and warehouses. Where a file has
# several of them, the first listed here counts.
COLUMNS = {
    "id": ("id",),
    "chain": ("chain", "network", "blockchain"),
    "tx_hash": ("tx_hash", "transaction_hash", "hash", "tx_id", "signature"),
    "log_index": ("log_index", "event_index", "evt_index"),
    "block_timestamp": (
        "block_timestamp",
        "block_time",
        "timestamp",
        "unix_timestamp",
        "datetime (utc)",
        "datetime",
        "date (utc)",
        "time",
    ),
    "sender": ("sender", "from_addr", "from_address", "payer", "from"),
    "recipient": ("recipient", "to_addr", "to_address", "merchant", "to"),
    "amount": ("amount_raw", "raw_amount", "amount", "value"),
    "decimals": ("decimals", "token_decimals", "token_decimal"),
    "token_address": ("token_address", "contract_address", "token_contract_address"),
    "dollars": ("amount_usdc", "value_usd", "amount_usd", "token_value", "usd_value"),
    "success": ("success",),
    "address": ("address",),
    "transaction_from": ("transaction_from", "facilitator_addr", "facilitator", "tx_from"),
    "provider": ("provider",),
    "facilitator_id": ("facilitator_id",),
}
# Groups of columns; a file needs a column of each group.
AMOUNT = ("amount", "dollars")
REQUIRED = (("chain",), ("block_timestamp",), ("sender",), ("recipient",), AMOUNT)
# Words within other names of a required column, for guesses.
WORDS = {
    "chain": {"chain", "network"},
    "block_timestamp": {"time", "date", "when", "created"},
    "sender": {"sender", "payer", "from", "buyer", "source", "customer"},
    "recipient": {"recipient", "payee", "seller", "receiver", "merchant", "destination"},
    "dollars": {"usd", "dollar", "price"},
    "amount": {"amount", "value"},
    "decimals": {"decimal"},
    "token_address": {"contract"},
}
MAX_LISTED = 400  # characters of a header that an error message quotes

_separators = re.compile(r"[\W_]+")


def find_columns(source: SourceOptions, names: Sequence[str]) -> dict[str, list[str]]:
    """Map each recognised column to its names among these, the one that counts first.

    The case, blanks and punctuation of a recognised name do not matter. Raises SourceError when a
    name is given for an unknown column, or is not that of a column.
    """
    for column, name in source.columns.items():
        if column not in COLUMNS:
            (nearest,) = get_close_matches(column, COLUMNS, 1, cutoff=0)
            raise SourceError(
                f"{source.name}: payments have no column {one_line(column)} to map; "
                f"the nearest is {nearest}"
            )
        if name not in names:
            raise SourceError(
                f"{source.name}: there is no column {one_line(name)} for {column} among "
                f"{_listed(names)}"
            )
    found = {}
    for column, aliases in COLUMNS.items():
        keys = [*map(_fold, aliases)]
        own = [name for name in names if _fold(name) in keys]
        own.sort(key=lambda name: (name not in aliases, keys.index(_fold(name))))
        if column in source.columns:
            own = [source.columns[column]]
        elif column == "dollars" and "token_address" not in found:
            own = [name for name in own if not is_token_value(name)]
        if own:
            found[column] = own
    return found


def check_columns(source: SourceOptions, names: list[str]) -> dict[str, str]:
    """Return the columns of a file with these names.

    An amount without decimals is no amount where the file has dollars, and else has the decimals of
    its token. Raises SourceError that names all missing columns, each with the likeliest name in
    the file.
    """
    columns = {column: own[0] for column, own in find_columns(source, names).items()}
    given = columns.keys() | ({"chain"} if source.chain else set())
    missing = [group for group in REQUIRED if given.isdisjoint(group)]
    unclear = next(filter(is_token_value, names), "")
    if "amount" in columns and "decimals" not in columns:
        if "dollars" in columns:
            del columns["amount"]
        elif "token_address" not in columns:
            missing.append(("decimals", "dollars"))
            unclear = columns["amount"]
    if missing[-1:] == [AMOUNT] and unclear:
        missing[-1] = "token_address", "dollars"
    if not missing:
        return columns
    guesses, unused = [], [name for name in names if name not in columns.values()]
    for group in missing:
        column, guess = _guess(group, unused)
        guesses.append(f'{column} = "{one_line(guess) or "NAME"}"')
        unused = [name for name in unused if name != guess]
    remedy = f"map the columns of the source: columns = {{{', '.join(guesses)}}}"
    if missing[-1][1:] == ("dollars",) and unclear:
        remedy += f' (or, if {one_line(unclear)} is in US dollars, dollars = "{one_line(unclear)}")'
    if ("chain",) in missing:
        remedy += ', or give the network of all rows: chain = "base"'
    groups = ", ".join(" or ".join(group) for group in missing)
    raise SourceError(
        f"{source.name}: there is no column for {groups} among {_listed(names)}; {remedy}"
    )


def is_token_value(name: str) -> bool:
    """Return whether a column is in units of a token: in dollars where another names the token."""
    return _fold(name) == "tokenvalue"


def _guess(group: tuple[str, ...], names: list[str]) -> tuple[str, str]:
    """Return a column of a group and the likeliest of the unused names, empty without any."""
    for column in group:
        for name in names:
            if any(word in name.casefold() for word in WORDS[column]):
                return column, name
    return group[0], ""


def _fold(name: str) -> str:
    return _separators.sub("", name.casefold())


def _listed(names: Sequence[str]) -> str:
    listed = ", ".join(names)
    return one_line(listed if len(listed) <= MAX_LISTED else f"{listed[:MAX_LISTED]}…")
