"""Readings: discovered resources as they are read once, and judged by the rules of each build."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from indexer.intake.records import SourceRecord
from indexer.options import Stablecoin
from indexer.resources.assets import Stablecoins
from indexer.resources.documents import Described
from indexer.resources.resource import Resource
from indexer.resources.x402 import read_resource
from indexer.sources.fact_store import UNKNOWN, FactStore, hash_text
from indexer.x402.rules import Rules, apply_rules

_encode = msgspec.msgpack.Encoder().encode
decode_resource = msgspec.msgpack.Decoder(Resource).decode


class ReadResource(NamedTuple):
    """A resource that was read, and the number of its facts."""

    number: int
    outline: Resource


class Readings:
    """The resources of a build, in the store of the facts of records.

    The store keeps resources as they are read without the rules of the operator and the date of the
    build, as both may differ in the next build.
    """

    def __init__(self, facts: FactStore, rules: Rules) -> None:
        self._facts, self._rules = facts, rules

    def read(self, record: SourceRecord, method: str = "") -> ReadResource:
        """Read a resource and apply the rules; raises InvalidRecord."""
        if isinstance(record, Described) and record.resource is not None:
            return self.keep(record.resource)
        digest = hash_text(record.text, method)
        (number,) = self._facts.find([digest])
        if number != UNKNOWN:
            return self.judge(ReadResource(number, self.outline(number)))
        encoded = encode_resource(record, self._rules.policy.stablecoins, method)
        number = self._facts.add(digest, encoded)
        return self.judge(ReadResource(number, decode_resource(encoded)))

    def keep(self, resource: Resource) -> ReadResource:
        """Keep a resource that was read, and apply the rules; raises LeftOut."""
        encoded = _encode(resource)
        number = self._facts.add(hash_text(encoded), encoded)
        return self.judge(ReadResource(number, decode_resource(encoded)))

    def judge(self, reading: ReadResource) -> ReadResource:
        """Return the reading of a record by the rules; raises LeftOut."""
        if self._rules.admit(reading.outline):
            return reading
        resource = reading.outline
        apply_rules(resource, self._rules)
        encoded = _encode(resource)
        return ReadResource(self._facts.add(hash_text(encoded), encoded), resource)

    def outline(self, number: int) -> Resource:
        """Return a resource."""
        return decode_resource(self._facts.read(number))

    def encoded(self, number: int) -> bytes:
        """Return a resource for `decode_resource`."""
        return bytes(self._facts.read(number))

    def digest(self, number: int) -> bytes:
        """Return a hash on which a resource depends."""
        return self._facts.digest(number)


def encode_resource(
    record: SourceRecord, stablecoins: tuple[Stablecoin, ...], method: str = ""
) -> bytes:
    """Return the bytes of a resource as it is without rules; raises InvalidRecord.

    method: of a resource that declares none
    """
    if record.fault:
        raise record.fault
    resource = read_resource(record.text, Stablecoins(stablecoins))
    if not resource.tool_url:
        resource.method = resource.method or method
    return _encode(resource)
