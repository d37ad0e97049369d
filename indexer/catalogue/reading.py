"""Reading: texts of sources to resources and records, in the pool of the build."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from decimal import Decimal
from typing import NamedTuple, TypeVar

import msgspec

from indexer.catalogue.known import KnownResults, ResultKeys
from indexer.catalogue.records import Record, read_record
from indexer.catalogue.table import encode_resource
from indexer.errors import InvalidRecord, LeftOut
from indexer.intake.lists import LIST_KINDS, SourceRecord
from indexer.intake.rules import Rules, check_address, check_price
from indexer.options import Kind, Stablecoin
from indexer.processes.pool import Pool, wait_for
from indexer.resources.assets import find_stablecoins
from indexer.resources.documents import Described
from indexer.resources.listing import forget_dates
from indexer.resources.resource import Resource
from indexer.resources.x402 import price_resource, read_resource
from service.urls import parse_url

BATCH = 2**20
"""Bytes of texts that are sent to a worker in one call."""
LEAST = 128
"""Bytes that a subject counts at least: many faults of a document have no text."""
READ_AHEAD = 2
"""Batches for each worker, so that no worker waits for the next one."""
OTHER_KIND = "records of another kind"

T = TypeVar("T")
R = TypeVar("R")

Result = bytes | Record | InvalidRecord
"""The bytes of a resource, a record, or why a text is neither."""

_encode = msgspec.msgpack.Encoder().encode
_decode: Callable[[bytes], bytes | Record] = msgspec.msgpack.Decoder(bytes | Record).decode


class Lookup(NamedTuple):
    """A record, the key of its result, and the result where it is known or a fault.

    The key is empty for a record without a text to read.
    """

    record: SourceRecord
    key: bytes
    result: Result | None


def read_all(
    pool: Pool,
    records: Iterable[SourceRecord],
    kind: Kind | None,
    stablecoins: tuple[Stablecoin, ...] = (),
    known: KnownResults | None = None,
) -> Iterator[tuple[SourceRecord, Result]]:
    """Yield the records of a source with their results, in order, whatever rules there are.

    A record of a document that has a resource comes with empty bytes.
    """
    key_of = ResultKeys("read", stablecoins, kind)

    def look_up(record: SourceRecord) -> Lookup:
        if record.fault is not None or isinstance(record, Described):
            return Lookup(record, b"", record.fault or b"")
        key = key_of(record.text)
        found = None if known is None else known.find(key)
        return Lookup(record, key, None if found is None else _decode(found))

    def read(batch: list[Lookup]) -> Future[list[Result]]:
        texts = [each.record.text for each in batch if each.result is None]
        return pool.submit(read_texts, stablecoins, kind, texts)

    found = map(look_up, records)
    for batch, results in in_batches(pool, found, lambda each: len(each.record.text), read):
        read_now = iter(results)
        for record, key, result in batch:
            if result is not None:
                yield record, result
                continue
            fresh = next(read_now)
            if known is not None and not isinstance(fresh, InvalidRecord):
                known.add(key, _encode(fresh))
            yield record, fresh


def apply_rules(resource: Resource, rules: Rules) -> None:
    """Apply all rules but that on age to a resource; raises LeftOut.

    It loses dates in the future.

    Another entry is its price where that is above the highest one.
    """
    for url in dict.fromkeys((resource.server or resource.stated_url, resource.url)):
        if not resource.tool_url or url == resource.server:
            check_address("$.resource", parse_url(url), rules)
    rules.denials.check("$.accepts", payees=resource.payees)
    if _price_of(resource) > rules.policy.max_price:
        price_resource(resource, rules.policy.max_price)
    amount = _price_of(resource)
    check_price(f"$.accepts[{resource.chosen}]", amount, resource.pricing.currency, rules)
    for moment in (resource.updated, resource.called):
        rules.note_time(moment)
    forget_dates(resource, rules.latest)


def _price_of(resource: Resource) -> Decimal:
    """Return the price in units of its currency, 0 where there is none."""
    entry = resource.chosen_entry
    return Decimal(entry.price) if entry and entry.price else Decimal(0)


def in_batches(
    pool: Pool,
    subjects: Iterable[T],
    size_of: Callable[[T], int],
    submit: Callable[[list[T]], Future[R]],
) -> Iterator[tuple[list[T], R]]:
    """Yield subjects in batches of BATCH bytes, each with its answer; workers are kept busy."""
    waiting = READ_AHEAD * pool.workers if pool.workers > 1 else 0
    started: deque[tuple[list[T], Future[R]]] = deque()
    batch: list[T] = []
    size = 0
    for subject in subjects:
        batch.append(subject)
        size += max(LEAST, size_of(subject))
        if size >= BATCH:
            started.append((batch, submit(batch)))
            batch, size = [], 0
            while len(started) > waiting:
                first, future = started.popleft()
                yield first, wait_for(future)
    if batch:
        started.append((batch, submit(batch)))
    for first, future in started:
        yield first, wait_for(future)


def read_texts(
    stablecoins: tuple[Stablecoin, ...], kind: Kind | None, texts: Sequence[bytes]
) -> list[Result]:
    """Read the texts of a batch, in a worker or here."""
    return [_read(SourceRecord("", text), stablecoins, kind) for text in texts]


def _read(record: SourceRecord, stablecoins: tuple[Stablecoin, ...], kind: Kind | None) -> Result:
    try:
        if _kind_of(record, kind) is Kind.RESOURCES:
            return encode_resource(read_resource(record.text, find_stablecoins(stablecoins)))
        return read_record(record.text)
    except InvalidRecord as fault:
        return fault.with_traceback(None)  # refers to the record


def _kind_of(record: SourceRecord, declared: Kind | None) -> Kind:
    """Return what a record is; raises LeftOut where its source gives records of another kind."""
    kind = Kind.RESOURCES if record.is_resource else Kind.RECORDS
    if declared not in LIST_KINDS or declared is kind:
        return kind
    if declared is Kind.RESOURCES and b'"endpoints"' not in record.text:
        return declared
    reason = f"is one of the {kind}, and this source gives {declared} alone"
    raise LeftOut(OTHER_KIND, "$", reason)
