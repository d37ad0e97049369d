"""Readings: discovered resources as they are read once, and judged by the rules of each build."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

import msgspec

from indexer.errors import InvalidRecord
from indexer.intake.lists import SourceRecord
from indexer.intake.rules import Rules
from indexer.options import Policy, Stablecoin
from indexer.sources.fact_store import UNKNOWN, FactStore, hash_text
from indexer.x402.listing import Listing
from indexer.x402.outline import Outline
from indexer.x402.resource import Resource, read_resource

_encode = msgspec.msgpack.Encoder().encode
_outline = msgspec.msgpack.Decoder(Outline)
decode_resource = msgspec.msgpack.Decoder(Resource).decode
_listing = msgspec.msgpack.Decoder(Listing)


class ReadResource(NamedTuple):
    """A resource that was read: the number of its facts, and its outline."""

    number: int
    outline: Outline


class Readings:
    """The resources of a build, in the store of the facts of records.

    The store keeps resources as they are read without the rules of the operator and the date of the
    build, as both may differ in the next build.
    """

    def __init__(self, facts: FactStore, rules: Rules) -> None:
        self._facts, self._rules = facts, rules

    def read(self, record: SourceRecord, method: str = "") -> ReadResource:
        """Read a resource as `read_resource` does; raises InvalidRecord."""
        digest = hash_text(record.text, method)
        (number,) = self._facts.find([digest])
        if number != UNKNOWN:
            return self.judge(record, ReadResource(number, self.outline(number)), method)
        try:
            encoded = read_unjudged(record, self._rules.policy.stablecoins, method)
        except InvalidRecord:
            read_resource(record, self._rules, method)  # a rule has the first word
            raise
        number = self._facts.add(digest, encoded)
        return self.judge(record, ReadResource(number, _outline.decode(encoded)), method)

    def judge(self, record: SourceRecord, reading: ReadResource, method: str = "") -> ReadResource:
        """Return the reading of a record by the rules; raises LeftOut."""
        if _admits(self._rules, reading.outline):
            return reading
        resource, _ = read_resource(record, self._rules, method)
        encoded = _encode(resource)
        return ReadResource(self._facts.add(hash_text(encoded), encoded), resource)

    def outline(self, number: int) -> Outline:
        """Return the outline of a resource."""
        return _outline.decode(self._facts.read(number))

    def listing(self, number: int) -> Listing:
        """Return the listing of a resource that is listed."""
        return _listing.decode(decode_resource(self._facts.read(number)).listing)

    def encoded(self, number: int) -> bytes:
        """Return a resource for `decode_resource`."""
        return bytes(self._facts.read(number))

    def digest(self, number: int) -> bytes:
        """Return a hash on which a resource depends."""
        return self._facts.digest(number)


def read_unjudged(
    record: SourceRecord, stablecoins: tuple[Stablecoin, ...], method: str = ""
) -> bytes:
    """Return the bytes of a resource as it is without rules; raises InvalidRecord."""
    resource, _ = read_resource(record, without_judgement(stablecoins), method)
    return _encode(resource)


def _admits(rules: Rules, outline: Outline) -> bool:
    """Whether a resource that was read `without_judgement` stands as it is.

    False for a resource to read again, as a rule may leave it out or a date is in the future.
    Raises LeftOut for an old listing.
    """
    policy = rules.policy
    is_admitted = (
        (policy.allow_http or not outline.is_http)
        and (policy.allow_private or not outline.is_private)
        and outline.price < float(policy.max_price)
        and not rules.is_future(outline.latest)
        and rules.denials.find(
            host=outline.host,
            domain=outline.domain,
            payees=outline.payees,
            urls=(outline.given, outline.identity),
        )
        is None
    )
    if is_admitted:
        rules.check_age(outline.updated)
    return is_admitted


@lru_cache(maxsize=16)
def without_judgement(stablecoins: tuple[Stablecoin, ...]) -> Rules:
    """Return rules that leave out only listings which no option admits."""
    return Rules(
        Policy(
            max_price=Decimal("Infinity"),
            allow_http=True,
            allow_private=True,
            stablecoins=stablecoins,
        )
    )
