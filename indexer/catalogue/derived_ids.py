"""Ids for records that have none, derived from their domains."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from indexer.decisions import Decisions
from service.schema.values import ID_PATTERN
from service.urls import ascii_host

HASH_DIGITS = 8
MAX_ID = 256  # characters

_valid = re.compile(ID_PATTERN)
_word = re.compile(r"[a-z0-9_~]+")
_scheme = re.compile(r"^https?://")


class Identity(Struct):
    """The identity of a service: its own id, if any, its domain, and the trust in its source.

    domain: followed by the path of a service that shares the domain
    source: the number of its source
    is_rest: whether its resources are those that no catalogue record of the domain names
    """

    given: str | None
    domain: str
    trust: int
    source: int = 0
    is_rest: bool = False


def derive_ids(
    services: Sequence[Identity], decisions: Decisions, taken_down: Collection[str] = ()
) -> list[str]:
    """Return the id of each service: its own, or else an id derived from its domain.

    The plain id is the domain in lower case with hyphens for dots and colons, followed by the words
    of a path with a hyphen before each. Several domains may have one plain id: the domain that has
    it in the served snapshot keeps it, else the most trusted, else the first; a short hash is
    appended to the others. An own id belongs to the most trusted service that states it, whatever
    is derived. A service without a domain and a service that derives its id are the same. Ids that
    are `taken_down` keep their domains.
    """
    hosts = [_host(each) for each in services]
    stated = _find_stated(services, hosts)
    owners = _find_owners(services, hosts, stated, decisions)
    for service_id, host in stated.items():
        if service_id == _base(host):
            decisions.own(service_id, host)
    for service_id in taken_down:
        if domain := decisions.owner_of(service_id):
            decisions.own(service_id, domain)
            owners[service_id] = domain
    ids = [each.given or "" for each in services]
    assigned, taken = {*ids}, {*ids}
    names: dict[tuple[str, bool], str] = {}
    # Rests come last: another service of their domain has the plain id if there is one.
    for number in sorted(range(len(services)), key=lambda number: services[number].is_rest):
        each, host = services[number], hosts[number]
        base, key = _base(host), (host, each.is_rest)
        if each.given is None and key not in names:
            is_plain = owners[base] == host and _valid.search(base) is not None
            is_free = not each.is_rest or base not in taken
            names[key] = base if is_plain and is_free else _suffixed(host, assigned, owners)
            assigned.add(names[key])
        if each.given is None:
            ids[number] = names[key]
            taken.add(names[key])
            decisions.own(ids[number], host)
    return ids


def plain_id(domain: str) -> str:
    """Return the id that is derived from a domain which no other shares; raises ValueError."""
    return _base(ascii_domain(domain))


def ascii_domain(domain: str) -> str:
    """Return the domain in ASCII and lower case, without a scheme; raises ValueError."""
    return ascii_host(_scheme.sub("", domain.lower()).removesuffix("/"))


def can_be_id(domain: str) -> bool:
    """Whether an id can be derived from this domain."""
    try:
        host = ascii_domain(domain)
    except ValueError:
        return False
    return bool(host) and "/" not in host and _valid.search(_suffixed(host, (), {})) is not None


def _host(record: Identity) -> str:
    try:
        return ascii_domain(record.domain)
    except ValueError:  # only of a record with an id of its own: its domain may be any text
        return record.domain


def _find_stated(services: Sequence[Identity], hosts: Sequence[str]) -> dict[str, str]:
    """Return the domain of each own id: that of the most trusted service which states it.

    Among equals the last source decides, within one source the first service.
    """
    stated: dict[str, str] = {}
    pairs = zip(services, hosts, strict=True)
    for each, host in sorted(pairs, key=lambda pair: (-pair[0].trust, -pair[0].source)):
        if each.given:
            stated.setdefault(each.given, host if each.domain else "")
    return {service_id: host for service_id, host in stated.items() if host}


def _find_owners(
    services: Sequence[Identity],
    hosts: Sequence[str],
    stated: Mapping[str, str],
    decisions: Decisions,
) -> dict[str, str]:
    """Return the domain that has each plain id, or that has it with a hash appended."""
    derived = [(each, host) for each, host in zip(services, hosts, strict=True) if not each.given]
    present = {host for _, host in derived}
    owners: dict[str, str] = {}
    for _, host in sorted(derived, key=lambda pair: -pair[0].trust):
        served = decisions.owner_of(_base(host))
        owners.setdefault(_base(host), served if served in present else host)
    return owners | {each: host for each, host in stated.items() if each in owners}


def _suffixed(domain: str, assigned: Collection[str], owners: Mapping[str, str]) -> str:
    """Return the id of a domain with as much of its hash as no id of another service has."""
    digest = hashlib.sha256(domain.encode()).hexdigest()
    candidates = (
        f"{_base(domain)[: MAX_ID - digits - 1]}-{digest[:digits]}"
        for digits in range(HASH_DIGITS, len(digest) + 1, HASH_DIGITS)
    )
    return next(
        each for each in candidates if each not in assigned and owners.get(each, domain) == domain
    )


def _base(domain: str) -> str:
    host, *path = domain.split("/", 1)
    words = [word for each in path for word in _word.findall(each)]
    return "-".join([host.translate(str.maketrans(".:", "--")), *words])
