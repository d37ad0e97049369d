"""Ids for records that have none, derived from their domains."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable

from service.records import ID_PATTERN

HASH_DIGITS = 8
LONGEST_BASE = 256 - HASH_DIGITS - 1

_valid = re.compile(ID_PATTERN)


def derive_ids(records: Iterable[tuple[str | None, str]]) -> list[str]:
    """The id of each record, given as its own id or None, and its domain.

    A derived id is the domain in lower case with hyphens for dots and colons. Where that would
    join two domains, or is no id at all, a short hash of the domain is appended.
    """
    records = [
        (given, _ascii(domain) if given is None else domain.lower()) for given, domain in records
    ]
    claims: dict[str, set[str]] = defaultdict(set)
    for given, domain in records:
        if given is None:
            claims[_base(domain)].add(domain)
    for given, domain in records:
        if given is not None and given in claims:
            claims[given].add(domain)
    return [
        given if given is not None else _derive(domain, shared=len(claims[_base(domain)]) > 1)
        for given, domain in records
    ]


def can_be_id(domain: str) -> bool:
    """Whether an id can be derived from this domain."""
    try:
        return _valid.search(_hashed(_ascii(domain))) is not None
    except UnicodeError:
        return False


def _derive(domain: str, *, shared: bool) -> str:
    base = _base(domain)
    return _hashed(domain) if shared or not _valid.search(base) else base


def _hashed(domain: str) -> str:
    digest = hashlib.sha256(domain.encode()).hexdigest()[:HASH_DIGITS]
    return f"{_base(domain)[:LONGEST_BASE]}-{digest}"


def _base(domain: str) -> str:
    return domain.translate(str.maketrans(".:", "--"))


def _ascii(domain: str) -> str:
    """Lower case; an international domain in its ASCII form. Raises UnicodeError without one."""
    return domain.lower() if domain.isascii() else domain.lower().encode("idna").decode("ascii")
