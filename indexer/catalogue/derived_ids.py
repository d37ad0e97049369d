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
MAX_BASE = 256 - HASH_DIGITS - 1  # characters

_valid = re.compile(ID_PATTERN)
_scheme = re.compile(r"^https?://")


class Identity(Struct):
    """The identity of a record: the number of its source, its own id, if any, and its domain."""

    source: int
    given: str | None
    domain: str


def derive_ids(records: Iterable[Identity]) -> list[str]:
    """Return the id of each record: its own, or one derived from its domain.

    A derived id is the domain in lower case with hyphens for dots and colons. A short hash of the
    domain is appended where two domains would share an id, or where it would be no valid id. A
    record without a domain whose own id another source derives is the same service; in the same
    source it is another.
    """
    records = [Identity(record.source, record.given, _host(record)) for record in records]
    domains: dict[str, set[str]] = defaultdict(set)
    derived: set[tuple[int, str]] = set()
    for record in records:
        if record.given is None:
            domains[_base(record.domain)].add(record.domain)
            derived.add((record.source, _base(record.domain)))
    for record in records:
        if record.given in domains and (record.domain or (record.source, record.given) in derived):
            domains[record.given].add(record.domain)
    shared = _shared_ids(domains)
    return [
        record.given
        if record.given is not None
        else _derive(record.domain, is_shared=_base(record.domain) in shared)
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
    except ValueError:  # only of a record with an id of its own: its domain may be any text
        return record.domain


def _shared_ids(domains: dict[str, set[str]]) -> set[str]:
    """Return the ids without a hash that several domains have, given the domains of each such id.

    An id that another domain has with its hash is shared, too: nobody can claim it.
    """
    shared = {base for base, sharing in domains.items() if len(sharing) > 1}
    added = shared
    while added:
        hashed = {_hashed(domain) for base in added for domain in domains[base]}
        added = (hashed & domains.keys()) - shared
        shared |= added
    return shared


def _derive(domain: str, *, is_shared: bool) -> str:
    base = _base(domain)
    return _hashed(domain) if is_shared or not _valid.search(base) else base


def _hashed(domain: str) -> str:
    digest = hashlib.sha256(domain.encode()).hexdigest()[:HASH_DIGITS]
    return f"{_base(domain)[:MAX_BASE]}-{digest}"


def _base(domain: str) -> str:
    return domain.translate(str.maketrans(".:", "--"))


def _ascii(domain: str) -> str:
    """Return the domain in ASCII and lower case, without a scheme; raises ValueError."""
    return ascii_host(_scheme.sub("", domain.lower()).removesuffix("/"))
