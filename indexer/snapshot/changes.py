"""Comparing two snapshots: services added, changed and removed, and alerts.

Alerts are endpoints of a changed service that pay another address, or whose price moved tenfold.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Raw, Struct

from service.prices import Price, is_upto
from service.schema.records import Pricing
from service.schema.values import NULL
from service.search.postings import Mask
from service.storage.container import open_arrays
from service.storage.layouts import RECORDS
from service.storage.record_store import RecordStore

COMPARED_FILES = ("records.json", "records.arrays", "ids.arrays")
"""The files of a snapshot that are read to compare it."""
ABSENT = -1
"""The ordinal of a service that a snapshot does not have."""
CHUNK = 2**18
"""Bytes of each file that are compared at a time, so that both fit into the cache of a CPU."""
MULTIPLE = 10
"""The factor of a price that is singled out, up or down."""

Ordinals: TypeAlias = npt.NDArray[np.int64]
EndpointKey: TypeAlias = tuple[str, str, bytes]


class Difference(NamedTuple):
    """The services that differ, in order of id: the ordinal of each in the old and new snapshot.

    An added service has the old ordinal ABSENT, a removed one the new ordinal ABSENT.
    """

    old: Ordinals
    new: Ordinals


def compare_services(old: Path, new: Path) -> Difference:
    """Compare the services of two snapshot folders by their stored bytes.

    Services of equal hashes are compared byte by byte, as somebody may have made a collision.
    Raises OSError, ValueError or SnapshotUnavailable for files that are absent or damaged.
    """
    with ExitStack() as stack:
        before, after = (
            _Services(folder, stack.enter_context((folder / "records.json").open("rb")))
            for folder in (old, new)
        )
        ordinals = {service_id: ordinal for ordinal, service_id in enumerate(before.ids)}
        earlier = np.array([ordinals.get(each, ABSENT) for each in after.ids], np.int64)
        common_new = np.flatnonzero(earlier != ABSENT)
        common_old = earlier[common_new]
        is_changed = before.tags[common_old] != after.tags[common_new]
        is_changed |= before.sizes[common_old] != after.sizes[common_new]
        alike = np.flatnonzero(~is_changed)
        is_changed[alike] = _differ(before, after, common_old[alike], common_new[alike])
    is_listed = earlier == ABSENT
    is_listed[common_new] = is_changed
    is_removed = np.ones(len(before.ids), np.bool_)
    is_removed[common_old] = False
    listed, removed = np.flatnonzero(is_listed), np.flatnonzero(is_removed)
    old_ordinals = np.concatenate((earlier[listed], removed))
    new_ordinals = np.concatenate((listed, np.full(len(removed), ABSENT)))
    ids = [after.ids[ordinal] for ordinal in listed.tolist()]
    ids += [before.ids[ordinal] for ordinal in removed.tolist()]
    in_order = sorted(range(len(ids)), key=ids.__getitem__)
    return Difference(old_ordinals[in_order], new_ordinals[in_order])


class _Services:
    """The services of a snapshot folder in listing order: ids, hashes, sizes and stored bytes.

    The bytes are read and not mapped: pages of a mapping would count as memory of the process.
    """

    def __init__(self, folder: Path, file: BinaryIO) -> None:
        stored = RecordStore(folder, "ids")
        # Each id is in quotes, and has no character that JSON escapes.
        text = str(stored.slice(0, len(stored)), "ascii")
        self.ids = text[1:-1].split('","') if text else []
        arrays = open_arrays(folder / "records", RECORDS)
        self.tags, self.offsets = arrays["tags"], arrays["offsets"]
        self.sizes = np.diff(self.offsets)
        if len(self.ids) != len(self.sizes):
            raise ValueError(f"the {len(self.sizes)} records of {folder} do not fit its ids")
        self._file = file

    def chunks(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield the stored bytes of the services from `start` up to `stop`, joined by commas."""
        position, end = int(self.offsets[start]), int(self.offsets[stop]) - 1
        while position < end:
            size = min(CHUNK, end - position)
            chunk = os.pread(self._file.fileno(), size, position)
            if len(chunk) != size:
                raise ValueError(f"{self._file.name} ends before its last record")
            yield chunk
            position += size


def _differ(before: _Services, after: _Services, old: Ordinals, new: Ordinals) -> Mask:
    """Return which of these services differ, whose hashes and sizes are equal.

    `new` is ascending. Services that follow each other in both snapshots are compared together.
    """
    differ = np.zeros(len(new), np.bool_)
    breaks = np.flatnonzero((np.diff(old) != 1) | (np.diff(new) != 1)) + 1
    bounds = [0, *breaks.tolist(), len(new)] if len(new) else []

    def is_equal(first: int, stop: int) -> bool:
        count, start, other = stop - first, int(old[first]), int(new[first])
        chunks = before.chunks(start, start + count), after.chunks(other, other + count)
        return all(map(bytes.__eq__, *chunks))

    for first, stop in pairwise(bounds):
        if not is_equal(first, stop):
            for place in range(first, stop):
                differ[place] = not is_equal(place, place + 1)
    return differ


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
        """The amount, or the ceiling of the scheme `upto`."""
        pricing = self.pricing
        ceiling = (pricing.max_amount or "") if is_upto(pricing) else ""
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
