"""Comparing two snapshots: services added, changed and removed, and alerts.

Alerts are endpoints of a changed service that pay another address, or whose price moved tenfold.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import Raw, Struct

from service.prices import Price, is_ceiling
from service.schema.records import Pricing
from service.schema.values import NULL
from service.storage.container import open_arrays
from service.storage.texts import Texts

COMPARED_FILES = ("records.json", "records.arrays", "ids.arrays")
"""The files of a snapshot that are read to compare it."""
MULTIPLE = 10
"""The factor of a price that is singled out, up or down."""

EndpointKey: TypeAlias = tuple[str, str, bytes]


class Difference(NamedTuple):
    """The stored JSON of a service that differs: None where it was added or removed."""

    old: bytes | None
    new: bytes | None


def compare_services(old: Path, new: Path) -> Iterator[Difference]:
    """Yield the services that differ by a byte: in the new listing order, then the removed ones.

    Raises OSError, ValueError or SnapshotUnavailable for files that are absent or damaged.
    """
    with ExitStack() as stack:
        before, after = (_Services(folder, stack) for folder in (old, new))
        removed = {service_id: ordinal for ordinal, service_id in enumerate(before.ids)}
        for ordinal, service_id in enumerate(after.ids):
            text, earlier = after.text(ordinal), removed.pop(service_id, None)
            old_text = None if earlier is None else before.text(earlier)
            if old_text != text:
                yield Difference(old_text, text)
        for ordinal in removed.values():
            yield Difference(before.text(ordinal), None)


class _Services:
    """The services of a snapshot folder in listing order.

    The bytes are read and not mapped: pages of a mapping would count as memory of the process.
    """

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        ids = Texts(open_arrays(folder / "ids.arrays"), "ids")
        self.ids = [ids.text(ordinal) for ordinal in range(len(ids))]
        self._offsets = open_arrays(folder / "records.arrays")["offsets"].tolist()
        self._file = stack.enter_context((folder / "records.json").open("rb"))
        if len(self.ids) != len(self._offsets) - 1:
            raise ValueError(f"the records of {folder} do not fit its {len(self.ids)} ids")

    def text(self, ordinal: int) -> bytes:
        """Return the stored JSON of a service."""
        start, stop = self._offsets[ordinal], self._offsets[ordinal + 1] - 1
        text = os.pread(self._file.fileno(), stop - start, start)
        if len(text) != stop - start:
            raise ValueError(f"{self._file.name} ends before its last record")
        return text


class PayeeChange(Struct):
    """An endpoint that pays another address, null where its record names none."""

    url: str
    method: str
    old: str | None
    new: str | None

    def __str__(self) -> str:
        return f"{self.url} pays {self.new or 'no address'}, and paid {self.old or 'none'}"


class PriceJump(Struct):
    """An endpoint whose price moved tenfold or more, up or down, in units of its currency."""

    url: str
    method: str
    currency: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.url} costs {self.new} {self.currency}, and cost {self.old}"


class Alerts(NamedTuple):
    """The alerts of one service."""

    payees: list[PayeeChange]
    prices: list[PriceJump]


class _ComparedEndpoint(Struct, rename="camel"):
    """An endpoint, with members of any JSON type where catalogue records may hold anything."""

    url: str
    method: str
    pricing: Pricing
    pay_to: Raw = NULL
    tool: Raw = NULL

    @property
    def key(self) -> EndpointKey:
        """The identity of the endpoint: tools of one URL differ by their names."""
        return self.url, self.method, bytes(self.tool)

    @property
    def payee(self) -> str | None:
        """The address that is paid, None where the record names none."""
        text = bytes(self.pay_to)
        return (_string.decode(text) or None) if text.startswith(b'"') else None

    @property
    def price(self) -> Price:
        """The amount, or the ceiling of a scheme that has one."""
        pricing = self.pricing
        ceiling = (pricing.max_amount or "") if is_ceiling(pricing) else ""
        return Price(ceiling or pricing.amount, pricing.currency)


class _ComparedService(Struct):
    endpoints: list[_ComparedEndpoint] = []


_string = msgspec.json.Decoder(str)
_service = msgspec.json.Decoder(_ComparedService)


def find_alerts(old: bytes | memoryview, new: bytes | memoryview) -> Alerts:
    """Compare the endpoints that two versions of a stored service share."""
    alerts = Alerts([], [])
    for before, after in _pairs(old, new):
        payees = before.payee, after.payee
        if _fold(payees[0]) != _fold(payees[1]):
            alerts.payees.append(PayeeChange(after.url, after.method, *payees))
        if _is_jump(before.price, after.price):
            currency, amounts = after.price.currency, (before.price.amount, after.price.amount)
            alerts.prices.append(PriceJump(after.url, after.method, currency, *amounts))
    return alerts


def _pairs(
    old: bytes | memoryview, new: bytes | memoryview
) -> Iterator[tuple[_ComparedEndpoint, ...]]:
    """Yield the endpoints of both; of several alike the first with the first, and so on."""
    known: dict[EndpointKey, deque[_ComparedEndpoint]] = {}
    for each in _service.decode(old).endpoints:
        known.setdefault(each.key, deque()).append(each)
    for each in _service.decode(new).endpoints:
        if alike := known.get(each.key):
            yield alike.popleft(), each


def _fold(payee: str | None) -> str | None:
    """Return an address in the form that is compared: hexadecimal ones in lower case."""
    return payee.lower() if payee and payee[:2] in {"0x", "0X"} else payee


def _is_jump(before: Price, after: Price) -> bool:
    """Return whether an amount of one currency moved by MULTIPLE or more, or from or to nothing."""
    if before.currency.casefold() != after.currency.casefold():
        return False
    try:
        low, high = sorted((Decimal(before.amount), Decimal(after.amount)))
    except ArithmeticError:  # no amount
        return False
    return low != high and high >= low * MULTIPLE
