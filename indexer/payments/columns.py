"""Columns of payment files: recognised names, required columns, and guesses for missing ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from indexer.errors import SourceError
from indexer.payments.files import PaymentInput
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
    "dollars": ("amount_usdc", "value_usd", "amount_usd", "token_value", "usd_value"),
    "success": ("success",),
    "address": ("address",),
    "transaction_from": ("transaction_from", "facilitator_addr", "facilitator", "tx_from"),
    "provider": ("provider",),
    "facilitator_id": ("facilitator_id",),
    "token_address": ("token_address", "contract_address", "token_contract_address"),
}
# Groups of columns; a file needs a column of each group.
REQUIRED = (("chain",), ("block_timestamp",), ("sender",), ("recipient",), ("amount", "dollars"))
# Words within other names of a required column, for guesses.
WORDS = {
    "chain": ("chain", "network"),
    "block_timestamp": ("time", "date", "when", "created", "at"),
    "sender": ("sender", "payer", "from", "buyer", "source", "customer"),
    "recipient": ("recipient", "payee", "to", "seller", "receiver", "merchant", "destination"),
    "dollars": ("usd", "dollar", "price"),
    "amount": ("amount", "value"),
    "decimals": ("decimal",),
}
MAX_LISTED = 400  # characters of a header that an error message quotes

_separators = re.compile(r"[\W_]+")


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


def spellings(source: PaymentInput, names: list[str]) -> dict[str, list[str]]:
    """Return the names among these that each column has, the one that counts first.

    The case, blanks and punctuation of a recognised name do not matter.
    """
    folded = {name: _fold(name) for name in names}
    found = {}
    for column, aliases in column_names(source).items():
        exact = [alias for alias in aliases if alias in folded]
        alike = [] if column in source.columns else _alike(aliases, folded)
        if own := [*dict.fromkeys([*exact, *alike])]:
            found[column] = own
    return found


def find_columns(source: PaymentInput, names: list[str]) -> dict[str, str]:
    """Map each recognised column to the name that a file with these names has for it.

    Raises SourceError when the file lacks a given name.
    """
    found = {column: own[0] for column, own in spellings(source, names).items()}
    for column, name in source.columns.items():
        if column not in found:
            raise SourceError(
                f"{source.name}: there is no column {one_line(name)} for {column} among "
                f"{_listed(names)}"
            )
    return found


def check_columns(source: PaymentInput, names: list[str]) -> dict[str, str]:
    """Return the columns of a file with these names.

    An amount without decimals is no amount where the file has dollars, and else has the decimals of
    its token. Raises SourceError that names all missing columns, each with the likeliest name in
    the file.
    """
    columns = find_columns(source, names)
    missing = [
        group
        for group in REQUIRED
        if columns.keys().isdisjoint(group) and not (group == ("chain",) and source.chain)
    ]
    if "amount" in columns and "decimals" not in columns:
        if "dollars" in columns:
            del columns["amount"]
        elif "token_address" not in columns:
            missing.append(("decimals", "dollars"))
    if missing:
        raise _missing(source, missing, names, {*columns.values()})
    return columns


def _missing(
    source: PaymentInput, groups: Sequence[tuple[str, ...]], names: list[str], used: set[str]
) -> SourceError:
    guesses = []
    for group in groups:
        column, guess = _guess(group, [name for name in names if name not in used])
        guesses.append(f'{column} = "{one_line(guess) or "NAME"}"')
        used.add(guess)
    remedy = f"map the columns of the source: columns = {{{', '.join(guesses)}}}"
    if ("chain",) in groups:
        remedy += ', or give the network of all rows: chain = "base"'
    missing = ", ".join(" or ".join(group) for group in groups)
    return SourceError(
        f"{source.name}: there is no column for {missing} among {_listed(names)}; {remedy}"
    )


def _guess(group: tuple[str, ...], names: list[str]) -> tuple[str, str]:
    """Return a column of a group and the likeliest of the unused names, empty without any."""
    for column in group:
        for name in names:
            parts = _separators.split(name.casefold())
            if any(
                word in parts or (len(word) > 2 and word in name.casefold())
                for word in WORDS[column]
            ):
                return column, name
    folded = {_fold(name): name for name in names}
    for column in group:
        for alias in COLUMNS[column]:
            for match in get_close_matches(_fold(alias), folded, 1):
                return column, folded[match]
    return group[0], ""


def _alike(aliases: tuple[str, ...], folded: dict[str, str]) -> list[str]:
    keys = [*map(_fold, aliases)]
    return sorted(
        (name for name, key in folded.items() if key in keys),
        key=lambda name: keys.index(folded[name]),
    )


def _fold(name: str) -> str:
    return _separators.sub("", name.casefold())


def _listed(names: list[str]) -> str:
    listed = ", ".join(names)
    return one_line(listed if len(listed) <= MAX_LISTED else f"{listed[:MAX_LISTED]}…")
