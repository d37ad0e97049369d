"""Amounts of documents: in units of a currency, or in base units with known decimals."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from indexer.errors import InvalidRecord
from indexer.resources.assets import Asset, Stablecoins
from indexer.resources.entries import (
    CHARGE,
    MAX_AMOUNT,
    MAX_NAME,
    MINOR_UNITS,
    REQUEST,
    UNIT,
    shift_point,
)
from indexer.untrusted import line

_amount = re.compile(r"\$?([0-9]+(?:\.[0-9]+)?|\.[0-9]+)")


def read_amount(value: Any) -> str:
    """Return a decimal in units of a currency; raises ValueError with the reason."""
    if isinstance(value, Decimal):
        value = f"{value:f}" if abs(value.adjusted()) < MAX_AMOUNT else ""
    elif isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    match = _amount.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or len(match[0]) > MAX_AMOUNT:
        raise ValueError("it must be a decimal such as 0.01 in units of the currency")
    whole, _, fraction = match[1].partition(".")
    return shift_point((whole + fraction).lstrip("0") or "0", len(fraction))


def amount_or_invalid(read: Callable[[Any], str], value: Any, path: str) -> str:
    """Read the amount at a JSON path, an empty one for null; raises InvalidRecord."""
    try:
        return "" if value is None else read(value)
    except ValueError as error:
        raise InvalidRecord(path, f"is not a price: {error}") from error


def find_currency(stablecoins: Stablecoins, network: str, name: str) -> Asset | None:
    """Return a currency by its ISO code or the address of its token on a network, or None."""
    asset = stablecoins.find(network, name)
    code = name.upper()
    if asset is not None or code not in MINOR_UNITS:
        return asset
    return Asset(code, MINOR_UNITS[code], is_usd=code == "USD")


def read_unit(value: Any, intent: str) -> str:
    """Return the unit that an amount of an intent pays for, an empty string for a request."""
    unit = line(value, MAX_NAME)
    if not unit:
        return "" if intent in {"", CHARGE} else UNIT
    return "" if unit.casefold() == REQUEST else unit
