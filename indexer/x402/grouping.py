"""Discovery: resources of all sources, merged, and grouped by host into services."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from indexer.x402.naming import readable_name
from indexer.x402.resource import Resource
from indexer.x402.testnets import is_test_network
from service.networks import network_key
from service.storage.memory_map import open_bytes

MOST_TAGS = 20
LONGEST_DESCRIPTION = 600
# A name that fewer than one in so many give is that of an endpoint, and not of the service.
NAME_SHARE = 3

_decoder = msgspec.json.Decoder(Resource)


class Place(Struct, gc=False):
    """Where a resource is spooled, where it came from, and what decides whether it stays."""

    updated: int
    source: int
    digest: bytes
    position: str
    start: int
    stop: int


class Grouped(Struct):
    """A service: its catalogue record, and where the newest of its resources came from."""

    source: int
    position: str
    text: bytes


class DiscoveredQuality(Struct, rename="camel", kw_only=True):
    """Use of a service, as far as that of its endpoints tells."""

    total_calls: int | UnsetType = UNSET
    unique_payers: int | UnsetType = UNSET
    last_called_at: str | UnsetType = UNSET


class DiscoveredService(Struct, rename="camel", kw_only=True):
    """A catalogue record without an id, which is derived from its domain."""

    name: str
    description: str
    domain: str
    networks: list[str]
    endpoints: list[Raw]
    category: str | UnsetType
    quality: DiscoveredQuality | UnsetType
    service_name: str | UnsetType
    tags: list[str] | UnsetType
    icon_url: str | UnsetType


class Discovery:
    """Resources of all sources; all but what finds them stays on disk, in a spool file."""

    def __init__(self, spool: BinaryIO) -> None:
        self._spool = spool
        self._hosts: dict[str, dict[bytes, Place]] = defaultdict(dict)

    def add(self, source: int, position: str, resource: Resource) -> None:
        """Spool a resource, unless a newer one of the same URL and method is there.

        Of two that are as new that of the later source stays. Within a source their text decides,
        so that the order of its pages does not.
        """
        text = msgspec.json.encode(resource)
        digest = _digest(text)
        places = self._hosts[resource.domain]
        key = _digest("\n".join((resource.method, resource.tool, resource.identity)).encode())
        earlier = places.get(key)
        order = (resource.updated, source, digest)
        if earlier is None or order > (earlier.updated, earlier.source, earlier.digest):
            start = self._spool.tell()
            stop = start + self._spool.write(text)
            places[key] = Place(resource.updated, source, digest, position, start, stop)

    def services(self) -> Iterator[Grouped]:
        """The services, in order of their domains.

        Whatever the order in which their resources were added, and from which sources, they are
        the same.
        """
        self._spool.flush()
        spool = open_bytes(Path(self._spool.name))
        for domain, places in sorted(self._hosts.items()):
            resources = [_decoder.decode(spool[p.start : p.stop]) for p in places.values()]
            newest = max(places.values(), key=lambda place: (place.updated, place.source))
            text = msgspec.json.encode(_group(domain, resources))
            yield Grouped(newest.source, newest.position, text)


def _digest(text: bytes) -> bytes:
    return blake2b(text, digest_size=16).digest()


def _group(domain: str, resources: list[Resource]) -> DiscoveredService:
    """One service of resources, the most called first."""
    resources = sorted(
        resources,
        key=lambda each: (-(each.usage.calls or 0), each.identity, each.method, each.tool),
    )
    given = _given_name(resource.metadata.service_name for resource in resources)
    name = given or readable_name(domain)
    return DiscoveredService(
        name=name,
        description=_description(name, resources),
        domain=domain,
        networks=_networks(resources),
        endpoints=[resource.endpoint for resource in resources],
        category=_commonest(resource.metadata.category for resource in resources) or UNSET,
        quality=_quality(resources),
        service_name=given or UNSET,
        tags=_tags(resources) or UNSET,
        icon_url=_commonest(resource.metadata.icon_url for resource in resources) or UNSET,
    )


def _commonest(texts: Iterable[str]) -> str:
    """The first of those that are there most often; empty where all are."""
    found = Counter(text for text in texts if text).most_common(1)
    return found[0][0] if found else ""


def _given_name(names: Iterable[str]) -> str:
    """The name that most resources give the service, empty where they name only themselves."""
    names = [name for name in names if name]
    name = _commonest(names)
    return name if names.count(name) * NAME_SHARE >= len(names) else ""


def _description(name: str, resources: list[Resource]) -> str:
    """What the endpoints say they do, as much as a reader takes in; else what they are tagged.

    A service is found by its description, so that of one endpoint alone would hide the others.
    """
    described = [resource.metadata for resource in resources]
    texts = dict.fromkeys(each.description or each.service_name for each in described)
    distinct = [text for text in texts if text and text != name]
    if not distinct:
        return ", ".join(_tags(resources))
    description, *others = distinct
    for other in others:
        if len(description) + len(other) + 2 <= LONGEST_DESCRIPTION:
            description = f"{description.strip().rstrip('.;')}; {other.strip()}"
    return description


def _networks(resources: list[Resource]) -> list[str]:
    """The networks by their labels, real ones first, then the most accepted."""
    labels = [label for resource in resources for label in resource.networks]
    spellings = {network_key(label): label for label in sorted(labels, reverse=True)}
    counts = Counter(map(network_key, labels))
    return sorted(
        spellings.values(),
        key=lambda label: (is_test_network(label), -counts[network_key(label)], label),
    )


def _tags(resources: list[Resource]) -> list[str]:
    tags = [tag for resource in resources for tag in resource.metadata.tags]
    spellings = {tag.casefold(): tag for tag in reversed(tags)}
    commonest = Counter(tag.casefold() for tag in tags).most_common(MOST_TAGS)
    return [spellings[key] for key, _ in commonest]


def _quality(resources: list[Resource]) -> DiscoveredQuality | UnsetType:
    """Calls add up and payers do not: one who calls two endpoints would count twice."""
    usages = [resource.usage for resource in resources]
    calls = sum(usage.calls or 0 for usage in usages)
    payers = usages[0].payers if len(usages) == 1 else None
    last_called = max(usage.last_called for usage in usages)
    if not calls and not payers and not last_called:
        return UNSET
    return DiscoveredQuality(
        total_calls=calls if any(usage.calls is not None for usage in usages) else UNSET,
        unique_payers=UNSET if payers is None else payers,
        last_called_at=last_called or UNSET,
    )
