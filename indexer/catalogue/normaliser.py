"""Normalising the records of a source: known ones from what was kept, new ones in workers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future

from msgspec import Struct

from indexer.catalogue.known_records import (
    KnownRecords,
    Stored,
    decode_facts,
    encode_facts,
    hash_text,
)
from indexer.catalogue.record import Normalised, normalise, restore
from indexer.errors import InvalidRecord
from indexer.processes.pool import Pool, wait_for
from indexer.record_store import record_key
from indexer.segments.kept import NOT_KEPT
from indexer.sources.records import SourceRecord

BATCH = 2**20
"""Bytes of records that are looked up together, and sent to a worker in one call."""
WORKERS_FROM = 16 * 2**20
"""Bytes of new records that take longer to normalise than a worker takes to start."""
WAITING = 2
"""Batches for each worker that are read ahead, so that no worker waits for the next one."""

Answers = list[tuple[bytes, bytes, bytes] | None]
"""The compact JSON of each record, its encoded facts and its hash, None for an invalid one."""
Result = Normalised | Stored | InvalidRecord | None
"""A valid record, the fault of an invalid one, or None for a discovered resource."""


class Batch(Struct):
    """Records that follow each other, and what is known of them.

    new: ordinals of the records to normalise
    answer: what a worker returns for them, None where there is no worker
    """

    records: list[SourceRecord]
    digests: list[bytes]
    known: list[Stored | None]
    new: list[int]
    answer: Future[Answers] | None = None


class Normaliser:
    """Normalises records in their order, in a pool from `WORKERS_FROM` bytes of new records on.

    `reused` counts the known records.
    """

    def __init__(self, known: KnownRecords, pool: Pool) -> None:
        self.reused = 0
        self._known, self._pool = known, pool
        self._new_bytes = 0

    def normalise(
        self, records: Iterable[SourceRecord], is_of_catalogue: Callable[[SourceRecord], bool]
    ) -> Iterator[tuple[SourceRecord, Result]]:
        """Yield the records with their results, in order; only those of a catalogue have one."""
        started: deque[Batch] = deque()
        for batch in _batches(records):
            started.append(self._start(batch, is_of_catalogue))
            while len(started) > self._read_ahead:
                yield from self._finish(started.popleft())
        while started:
            yield from self._finish(started.popleft())

    @property
    def _read_ahead(self) -> int:
        """The batches that are read ahead, 0 where this process normalises them."""
        is_worth_it = self._pool.workers > 1 and self._new_bytes >= WORKERS_FROM
        return WAITING * self._pool.workers if is_worth_it else 0

    def _start(
        self, records: list[SourceRecord], is_of_catalogue: Callable[[SourceRecord], bool]
    ) -> Batch:
        """Look the records up, and send the new ones to a worker if there is one."""
        digests = [hash_text(record.text) for record in records]
        known = self._known.find(digests)
        new = [
            ordinal
            for ordinal, record in enumerate(records)
            if known[ordinal] is None and not record.fault and is_of_catalogue(record)
        ]
        batch = Batch(records, digests, known, new)
        self._new_bytes += sum(len(records[ordinal].text) for ordinal in new)
        if self._read_ahead and new:
            texts = [records[ordinal].text for ordinal in new]
            batch.answer = self._pool.submit(normalise_texts, texts)
        return batch

    def _finish(self, batch: Batch) -> Iterator[tuple[SourceRecord, Result]]:
        new: dict[int, Normalised | None] = dict.fromkeys(batch.new)
        if batch.answer is not None:
            answers = wait_for(batch.answer)
            for ordinal, answer in zip(batch.new, answers, strict=True):
                if answer is not None:
                    text, encoded, key = answer
                    self._known.add(batch.digests[ordinal], encoded, key)
                    (facts,) = decode_facts([encoded])
                    new[ordinal] = Normalised(text, facts)
        for ordinal, (record, known) in enumerate(zip(batch.records, batch.known, strict=True)):
            if known is not None:
                self.reused += 1
                is_stored = known.row != NOT_KEPT
                yield record, known if is_stored else restore(record.text, known.facts)
            elif ordinal in new or record.fault:
                yield record, new.get(ordinal) or self._validate(record, batch.digests[ordinal])
            else:
                yield record, None

    def _validate(self, record: SourceRecord, digest: bytes) -> Result:
        try:
            normalised = normalise(record)
        except InvalidRecord as fault:
            return fault
        self._known.add(digest, encode_facts(normalised.facts), record_key(normalised.text))
        return normalised


def normalise_texts(texts: list[bytes]) -> Answers:
    """Normalise records in a worker.

    The build validates an invalid record again, and reports the fault.
    """
    answers: Answers = []
    for text in texts:
        try:
            compact, facts = normalise(SourceRecord("", text))
        except InvalidRecord:
            answers.append(None)
        else:
            answers.append((compact, encode_facts(facts), record_key(compact)))
    return answers


def _batches(records: Iterable[SourceRecord]) -> Iterator[list[SourceRecord]]:
    batch: list[SourceRecord] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(record.text)
        if size >= BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
