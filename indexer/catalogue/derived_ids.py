"""Ids for records that have none, derived from their domains."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable

from msgspec import Struct

from indexer.urls import ascii_host
from service.records import ID_PATTERN

HASH_DIGITS = 8
LONGEST_BASE = 256 - HASH_DIGITS - 1

_valid = re.compile(ID_PATTERN)
_scheme = re.compile(r"^https?://")


class Identity(Struct):
    """What a record is told by: the number of its source, its own id if it has one, its domain."""

    source: int
    given: str | None
    domain: str


def derive_ids(records: Iterable[Identity]) -> list[str]:
    """The id of each record.

    A derived id is the domain in lower case with hyphens for dots and colons. Where that would
    join two domains, or is no id at all, a short hash of the domain is appended. A record without
    a domain that gives the id which one of another source derives is the same service; in the
    same source it is another.
    """
    records = [Identity(record.source, record.given, _host(record)) for record in records]
    claims: dict[str, set[str]] = defaultdict(set)
    derived: set[tuple[int, str]] = set()
    for record in records:
        if record.given is None:
            claims[_base(record.domain)].add(record.domain)
            derived.add((record.source, _base(record.domain)))
    for record in records:
        if record.given in claims and (record.domain or (record.source, record.given) in derived):
            claims[record.given].add(record.domain)
    return [
        record.given
        if record.given is not None
        else _derive(record.domain, shared=len(claims[_base(record.domain)]) > 1)
        for record in records
    ]


def can_be_id(domain: str) -> bool:
    """Whether an id can be derived from this domain."""
    try:
        host = _ascii(domain)
    except ValueError:
        return False
    return bool(host) and _valid.search(_hashed(host)) is not None


def _host(record: Identity) -> str:
    try:
        return _ascii(record.domain)
    except ValueError:  # of a record that has its own id; any text may be its domain
        return record.domain


def _derive(domain: str, *, shared: bool) -> str:
    base = _base(domain)
    return _hashed(domain) if shared or not _valid.search(base) else base


def _hashed(domain: str) -> str:
    digest = hashlib.sha256(domain.encode()).hexdigest()[:HASH_DIGITS]
    return f"{_base(domain)[:LONGEST_BASE]}-{digest}"


def _base(domain: str) -> str:
    return domain.translate(str.maketrans(".:", "--"))


def _ascii(domain: str) -> str:
    """Lower case, without a scheme, in ASCII; raises ValueError where IDNA has no form for it."""
    return ascii_host(_scheme.sub("", domain.lower()).removesuffix("/"))
