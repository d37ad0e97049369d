"""Known records: records of sources by the hashes of their bytes, with their facts.

Facts of catalogue records and of resources are in one store. The text of a catalogue record is not
kept: it is restored from the source, or read from the last snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from indexer.catalogue.record import Facts, Normalised, normalise, restore
from indexer.intake.fingerprint import hash_program
from indexer.intake.records import SourceRecord
from indexer.options import Policy
from indexer.record_store import record_key
from indexer.resources.resource import Resource
from indexer.segments.reuse import KeptRecords, ReuseStore
from indexer.sources.fact_store import (
    UNKNOWN,
    FactsDamaged,
    FactStore,
    hash_text,
    open_facts,
)
from indexer.x402.readings import ReadResource

NOT_KEPT = -1
"""The row of a record that the last snapshot does not store."""

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Facts | Resource] = msgspec.msgpack.Decoder(Facts | Resource)


class Stored(NamedTuple):
    """A record whose text the last snapshot has: its facts, and its row among the kept records."""

    facts: Facts
    row: int


class ValidatedRecord(NamedTuple):
    """A validated record: compact JSON and its hash, both empty for a resource, and facts.

    flags: for each resource of a discovered service, whether its record has the resource
    """

    text: bytes
    key: bytes
    facts: bytes
    flags: Sequence[bool] = ()


Known = Stored | ReadResource | None


class KnownRecords:
    """The records that the last build validated, and those that this build adds."""

    def __init__(self, facts: FactStore | None = None, kept: KeptRecords | None = None) -> None:
        self.facts = facts or FactStore()
        self._rows = np.full(len(self.facts.keys), NOT_KEPT, np.int32)
        if kept is not None:
            self._rows = kept.columns.find(self.facts.keys)

    def normalise(self, record: SourceRecord) -> Normalised:
        """Normalise a record without a fault, and keep it; raises InvalidRecord."""
        digest = hash_text(record.text)
        (known,) = self.find([digest])
        if isinstance(known, Stored):
            return restore(record.text, known.facts)
        normalised = normalise(record)
        self.add(digest, encode_normalised(normalised))
        return normalised

    def find(self, digests: Sequence[bytes]) -> list[Known]:
        """Return the records with these hashes, None for each unknown one."""
        return [
            None if number == UNKNOWN else self._decode(number, self.facts.read(number))
            for number in self.facts.find(digests)
        ]

    def add(self, digest: bytes, validated: ValidatedRecord) -> Normalised | ReadResource:
        """Keep a record that was validated for the next build; returns it."""
        facts = _decoder.decode(validated.facts)
        number = self.facts.add(digest, validated.facts, validated.key)
        if isinstance(facts, Resource):
            return ReadResource(number, facts)
        return Normalised(validated.text, facts)

    def _decode(self, number: int, encoded: bytes | memoryview) -> Stored | ReadResource:
        facts = _decoder.decode(encoded)
        if isinstance(facts, Resource):
            return ReadResource(number, facts)
        return Stored(facts, int(self._rows[number]) if number < len(self._rows) else NOT_KEPT)


def encode_normalised(normalised: Normalised, flags: Sequence[bool] = ()) -> ValidatedRecord:
    """Encode a normalised record as a worker sends it, with its key."""
    text, facts = normalised
    return ValidatedRecord(text, record_key(text), _encode(facts), flags)


def open_known_records(reuse: ReuseStore, policy: Policy, staging: Path) -> KnownRecords:
    """Return the source records that the last build validated, none where it left none.

    New facts are spooled to the folder `staging`.
    """
    for path in reuse.facts():
        with suppress(FactsDamaged):
            return KnownRecords(open_facts(path, program_of_facts(policy), staging), reuse.records)
    return KnownRecords(FactStore(folder=staging))


def program_of_facts(policy: Policy) -> str:
    """Return the program that derives facts, with the only option on which facts depend."""
    return f"{hash_program()} {policy.stablecoins!r}"
