"""Reading: texts of sources to items and records, in the pool of the build."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple, TypeVar

from indexer.catalogue.records import Record, read_record
from indexer.catalogue.table import encode_resource
from indexer.errors import InvalidRecord, LeftOut
from indexer.intake.lists import LIST_KINDS, SourceRecord
from indexer.intake.rules import Denials, Rules, apply_rules
from indexer.options import Denial, Kind, Policy
from indexer.processes.pool import Pool, wait_for
from indexer.resources.documents import Described
from indexer.resources.resource import Resource
from indexer.resources.x402 import read_resource

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


class Answer(NamedTuple):
    """The results of a batch, until when they hold, and how often each denial was found."""

    results: list[Result]
    holds_until: int | None
    denied: Counter[Denial]


def read_all(
    pool: Pool, records: Iterable[SourceRecord], kind: Kind | None, rules: Rules, now: datetime
) -> Iterator[tuple[SourceRecord, Result]]:
    """Yield the records of a source with their results, in order."""

    def read(batch: list[SourceRecord]) -> Future[Answer]:
        texts = [b"" if isinstance(each, Described) else each.text for each in batch]
        return pool.submit(read_texts, rules.decided, now, kind, texts)

    for batch, answer in in_batches(pool, records, lambda record: len(record.text), read):
        rules.denials.counts.update(answer.denied)
        if answer.holds_until is not None:
            rules.hold_until(answer.holds_until)
        for record, result in zip(batch, answer.results, strict=True):
            if record.fault is not None:
                yield record, record.fault
            elif isinstance(record, Described) and record.resource is not None:
                yield record, _apply(record.resource, rules)
            else:
                yield record, result


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


def read_texts(policy: Policy, now: datetime, kind: Kind | None, texts: Sequence[bytes]) -> Answer:
    """Read the texts of a batch, in a worker or here; results of empty ones mean nothing."""
    rules = _rules(policy, now)
    rules.holds_until = None
    rules.denials.counts.clear()
    results = [_read(SourceRecord("", text), kind, rules) if text else b"" for text in texts]
    return Answer(results, rules.holds_until, Counter(rules.denials.counts))


@lru_cache(maxsize=2)
def _rules(policy: Policy, now: datetime) -> Rules:
    return Rules(policy, Denials(policy.deny), now)


def _read(record: SourceRecord, kind: Kind | None, rules: Rules) -> Result:
    try:
        if _kind_of(record, kind) is Kind.RESOURCES:
            return _apply(read_resource(record.text, rules.stablecoins), rules)
        return read_record(record.text)
    except InvalidRecord as fault:
        return fault.with_traceback(None)  # refers to the record


def _apply(resource: Resource, rules: Rules) -> bytes | InvalidRecord:
    """Return the bytes of a resource that the rules admit, or why they do not."""
    try:
        apply_rules(resource, rules)
    except InvalidRecord as fault:
        return fault.with_traceback(None)
    return encode_resource(resource)


def _kind_of(record: SourceRecord, declared: Kind | None) -> Kind:
    """Return what a record is; raises LeftOut where its source gives records of another kind."""
    kind = Kind.RESOURCES if record.is_resource else Kind.RECORDS
    if declared not in LIST_KINDS or declared is kind:
        return kind
    if declared is Kind.RESOURCES and b'"endpoints"' not in record.text:
        return declared
    reason = f"is one of the {kind}, and this source gives {declared} alone"
    raise LeftOut(OTHER_KIND, "$", reason)
