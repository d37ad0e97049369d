"""Normalising records: known ones from what was kept, new ones in the pool of the build."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Generic, TypeVar

from msgspec import Struct

from indexer.catalogue.discovered import describe_services, encode_group, is_whole
from indexer.catalogue.known_records import (
    NOT_KEPT,
    Known,
    KnownRecords,
    Stored,
    ValidatedRecord,
    encode_normalised,
)
from indexer.catalogue.record import Normalised, normalise, restore
from indexer.errors import InvalidRecord
from indexer.intake.records import SourceRecord
from indexer.options import Kind, Policy, Stablecoin
from indexer.processes.pool import Pool, wait_for
from indexer.resources.documents import Described
from indexer.sources.fact_store import NO_KEY, hash_text
from indexer.x402.discovery import Discovery, Grouped
from indexer.x402.readings import ReadResource, encode_resource

BATCH = 2**20
"""Bytes of records that are looked up together, and sent to a worker in one call."""
RECORD = 128
"""Bytes of a record beside its text, which is empty for many faults of a document, about."""
WORKERS_FROM = 4 * 2**20
"""Bytes of new records that take longer to normalise than a worker takes to start."""
WAITING = 2
"""Batches for each worker that are read ahead, so that no worker waits for the next one."""

T = TypeVar("T")

ValidatedRecords = list[ValidatedRecord | None]
Result = Normalised | Stored | ReadResource | None
"""A valid record, a resource before rules judge it, or None for a record that is neither."""


class Work(Struct, Generic[T]):
    """A kind of subjects to normalise.

    size: the bytes of a subject
    digest: the hash by which its result is known
    is_known: whether the known result is all that is needed
    content: the bytes that are normalised
    function: normalises the contents of several subjects; importable by name, or partial of such
    """

    size: Callable[[T], int]
    digest: Callable[[T], bytes]
    is_known: Callable[[T, Known], bool]
    content: Callable[[T], bytes]
    function: Callable[[list[bytes]], ValidatedRecords]


class RecordNormaliser:
    """Normalises records in their order, in a pool from `WORKERS_FROM` bytes of new records on.

    `reused` counts the known records.
    """

    def __init__(self, known: KnownRecords, pool: Pool) -> None:
        self.reused = 0
        self.known = known
        self._pool = pool
        self._new_bytes = 0

    def normalise(
        self,
        records: Iterable[SourceRecord],
        kind: Kind | None = None,
        stablecoins: tuple[Stablecoin, ...] = (),
    ) -> Iterator[tuple[SourceRecord, Result]]:
        """Yield the records with their results, in order; a source of a kind has those alone."""
        work = Work[SourceRecord](
            size=lambda record: len(record.text) + RECORD,
            digest=lambda record: hash_text(
                record.text, "document" if isinstance(record, Described) else ""
            ),
            is_known=lambda record, known: (
                known is not None or bool(record.fault) or isinstance(record, Described)
            ),
            content=lambda record: record.text,
            function=partial(normalise_texts, kind, stablecoins),
        )
        for record, known, _ in self._run(records, work):
            if isinstance(known, Stored) and known.row == NOT_KEPT:
                yield record, restore(record.text, known.facts)
            else:
                yield record, known

    def services(
        self, discovery: Discovery, ids: Mapping[str, str], policy: Policy
    ) -> Iterator[tuple[Grouped, Normalised | Stored]]:
        """Yield the discovered services with their records, whose ids are those of their keys.

        A service of the resources that the last build had is known by their hashes.
        """
        work = Work[Grouped](
            size=lambda service: service.size,
            digest=lambda service: hash_text(
                encode_group(service, ids[service.key], policy, discovery.readings.digest)
            ),
            is_known=is_whole,
            content=lambda service: encode_group(
                service, ids[service.key], policy, discovery.readings.encoded
            ),
            function=describe_services,
        )
        reused = self.reused
        for service, record, flags in self._run(discovery.services(), work):
            for place, flag in zip(service.places, flags, strict=False):
                place.in_record = flag
            assert isinstance(record, (Normalised, Stored))  # noqa: S101  # by `describe_services`
            yield service, record
        self.reused = reused

    def _run(
        self, subjects: Iterable[T], work: Work[T]
    ) -> Iterator[tuple[T, Result, Sequence[bool]]]:
        """Yield the subjects with their results, and with the flags of new ones."""
        started: deque[Iterator[tuple[T, Result, Sequence[bool]]]] = deque()
        for batch in _batches(subjects, work.size):
            started.append(self._start(batch, work))
            while len(started) > self._read_ahead:
                yield from started.popleft()
        while started:
            yield from started.popleft()

    @property
    def _read_ahead(self) -> int:
        """The batches that are read ahead, 0 where this process normalises them."""
        is_worth_it = self._pool.workers > 1 and self._new_bytes >= WORKERS_FROM
        return WAITING * self._pool.workers if is_worth_it else 0

    def _start(
        self, subjects: list[T], work: Work[T]
    ) -> Iterator[tuple[T, Result, Sequence[bool]]]:
        """Look the subjects up, and send the new ones to a worker where that is worth it.

        Returns the results, which wait for the worker.
        """
        digests = [work.digest(subject) for subject in subjects]
        known = self.known.find(digests)
        is_known = map(work.is_known, subjects, known)
        new = [ordinal for ordinal, is_known in enumerate(is_known) if not is_known]
        contents = [work.content(subjects[ordinal]) for ordinal in new]
        self._new_bytes += sum(map(len, contents))
        answers: Future[ValidatedRecords] | ValidatedRecords
        if contents and self._read_ahead:
            answers = self._pool.submit(work.function, contents)
        else:
            answers = work.function(contents)
        return self._finish(subjects, digests, known, new, answers)

    def _finish(
        self,
        subjects: list[T],
        digests: list[bytes],
        known: list[Known],
        new: list[int],
        answers: Future[ValidatedRecords] | ValidatedRecords,
    ) -> Iterator[tuple[T, Result, Sequence[bool]]]:
        """Yield the subjects with their results; `answers` are about the ordinals `new`."""
        if isinstance(answers, Future):
            answers = wait_for(answers)
        answered = dict(zip(new, answers, strict=True))
        for ordinal, subject in enumerate(subjects):
            if ordinal not in answered:
                self.reused += known[ordinal] is not None
                yield subject, known[ordinal], ()
            elif answer := answered[ordinal]:
                yield subject, self.known.add(digests[ordinal], answer), answer.flags
            else:
                yield subject, None, ()


def normalise_texts(
    kind: Kind | None, stablecoins: tuple[Stablecoin, ...], texts: list[bytes]
) -> ValidatedRecords:
    """Normalise records and read resources, in a worker or here.

    The build validates an invalid record again, and reports the fault.
    """
    return [_normalise(SourceRecord("", text), kind, stablecoins) for text in texts]


def _normalise(
    record: SourceRecord, kind: Kind | None, stablecoins: tuple[Stablecoin, ...]
) -> ValidatedRecord | None:
    try:
        if kind is not Kind.RESOURCES and not record.is_resource:
            return encode_normalised(normalise(record))
        if kind is not Kind.RECORDS and record.is_resource:
            return ValidatedRecord(b"", NO_KEY, encode_resource(record, stablecoins))
    except InvalidRecord:
        pass
    return None


def _batches(subjects: Iterable[T], size_of: Callable[[T], int]) -> Iterator[list[T]]:
    batch: list[T] = []
    size = 0
    for subject in subjects:
        batch.append(subject)
        size += size_of(subject)
        if size >= BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
