"""The resources of one host to the record of a service."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import UNSET, Raw, Struct, UnsetType

from indexer.x402.naming import readable_name
from indexer.x402.resource import Resource
from indexer.x402.testnets import is_test_network
from service.networks import network_key

MAX_TAGS = 20
MAX_DESCRIPTION = 600  # characters, if joined from several endpoints
NAME_SHARE = 3  # a name given by fewer than a third of the names is that of an endpoint


class DiscoveredQuality(Struct, rename="camel", kw_only=True):
    """Use of a service, as far as that of its endpoints tells."""

    total_calls: int | UnsetType = UNSET
    unique_payers: int | UnsetType = UNSET
    last_called_at: str | UnsetType = UNSET


class DiscoveredService(Struct, rename="camel", kw_only=True):
    """A catalogue record without an id, which is derived from the domain."""

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


def group_resources(domain: str, resources: list[Resource]) -> DiscoveredService:
    """Make one service of the resources of a host; its endpoints are ordered by calls."""
    resources = sorted(
        resources,
        key=lambda each: (-(each.usage.calls or 0), *each.key),
    )
    given_name = _given_name(resource.metadata.service_name for resource in resources)
    name = given_name or readable_name(domain)
    return DiscoveredService(
        name=name,
        description=_description(name, resources),
        domain=domain,
        networks=_networks(resources),
        endpoints=[Raw(resource.endpoint) for resource in resources],
        category=_most_common(resource.metadata.category for resource in resources) or UNSET,
        quality=_quality(resources),
        service_name=given_name or UNSET,
        tags=_tags(resources) or UNSET,
        icon_url=_most_common(resource.metadata.icon_url for resource in resources) or UNSET,
    )


def _most_common(texts: Iterable[str]) -> str:
    """Return the first of the most common texts that are not empty, or an empty one."""
    counts = Counter(text for text in texts if text).most_common(1)
    return counts[0][0] if counts else ""


def _given_name(names: Iterable[str]) -> str:
    """Return the most common name, or an empty one if the names are those of endpoints."""
    names = [name for name in names if name]
    name = _most_common(names)
    return name if names.count(name) * NAME_SHARE >= len(names) else ""


def _description(name: str, resources: list[Resource]) -> str:
    """Join the descriptions of the endpoints, or their tags if there are none.

    A service is found by its description, so that of one endpoint alone would hide the others.
    """
    metadata = [resource.metadata for resource in resources]
    texts = dict.fromkeys(each.description or each.service_name for each in metadata)
    distinct = [text for text in texts if text and text != name]
    if not distinct:
        return ", ".join(_tags(resources))
    description, *others = distinct
    for other in others:
        if len(description) + len(other) + 2 <= MAX_DESCRIPTION:
            description = f"{description.strip().rstrip('.;')}; {other.strip()}"
    return description


def _networks(resources: list[Resource]) -> list[str]:
    """Return the labels of the networks, main networks first, then by how many accept each."""
    labels = [label for resource in resources for label in resource.networks]
    spellings = {network_key(label): label for label in sorted(labels, reverse=True)}
    counts = Counter(map(network_key, labels))
    return sorted(
        spellings.values(),
        key=lambda label: (is_test_network(label), -counts[network_key(label)], label),
    )


def _tags(resources: list[Resource]) -> list[str]:
    """Return the most common tags, regardless of case, each in its first spelling."""
    tags = [tag for resource in resources for tag in resource.metadata.tags]
    spellings = {tag.casefold(): tag for tag in reversed(tags)}
    counts = Counter(tag.casefold() for tag in tags).most_common(MAX_TAGS)
    return [spellings[key] for key, _ in counts]


def _quality(resources: list[Resource]) -> DiscoveredQuality | UnsetType:
    """Add up calls, but not payers: a payer of two endpoints would count twice."""
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
