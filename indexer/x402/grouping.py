"""The resources of one host to the record of a service."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial

from msgspec import UNSET, Raw, Struct, UnsetType, field
from msgspec.structs import astuple

from indexer.tokens.testnets import is_test_network
from indexer.untrusted import line
from indexer.x402.members.described import ServiceTexts
from indexer.x402.members.metadata import MAX_NAME
from indexer.x402.members.naming import readable_name
from indexer.x402.members.tools import is_seller
from indexer.x402.resource import Resource
from service.networks import network_key

MAX_TAGS = 20
NAMED_TOOLS = 2  # MCP tools in the name of a service that gives none
MAX_DESCRIPTION = 600  # characters, if joined from several endpoints
NAME_SHARE = 3  # a service has a name that one listing in so many gives
FEW = 2  # listings of a host: beyond, one alone cannot name it
MAX_ENDPOINTS_BYTES = 256 * 1024
MAX_COUNT = 2**63 - 1
BEYOND = -1


class DiscoveredQuality(Struct, rename="camel", kw_only=True):
    """Use of a service, as far as that of its endpoints tells."""

    total_calls: int | UnsetType = UNSET
    unique_payers: int | UnsetType = UNSET
    last_called_at: str | UnsetType = UNSET


class DiscoveredService(Struct, rename="camel", kw_only=True):
    """A catalogue record without an id, which is derived from the domain."""

    name: str
    description: str
    domain: str | UnsetType
    networks: list[str]
    endpoints: list[Raw]
    category: str | UnsetType
    quality: DiscoveredQuality | UnsetType
    service_name: str | UnsetType
    tags: list[str] | UnsetType
    icon_url: str | UnsetType
    provider: str | UnsetType
    provider_url: str | UnsetType
    integration_type: str | UnsetType
    status: str | UnsetType
    guidance: str | UnsetType = field(name="x-guidance")
    info: Raw | UnsetType = field(name="x-service-info")


class GroupedResource(Struct):
    """A resource of a host, the trust in its source, and its number in the record of the host.

    The number is BEYOND for a resource that the record does not have.
    """

    resource: Resource
    trust: int
    number: int = BEYOND

    @property
    def in_record(self) -> bool:
        """Whether the record of the host has the resource."""
        return self.number != BEYOND


def group_resources(domain: str, grouped: list[GroupedResource], limit: int) -> DiscoveredService:
    """Make one service of the resources of a host; its endpoints, `limit` at most, follow calls.

    The texts of the service are those of its most trusted sources. The resources get their numbers
    in the record.
    """
    grouped = sorted(
        grouped,
        key=lambda each: (-each.trust, -(each.resource.usage.calls or 0), each.resource.key),
    )
    trust = max(each.trust for each in grouped)
    resources = [each.resource for each in grouped]
    leading = [each.resource for each in grouped if each.trust == trust]
    described = [each for each in leading if each.texts is not None and each.texts.has_names]
    namers = described or _of_commonest_payee(leading)
    agree = partial(_agreed, count=len(namers), least=1 if len(leading) <= FEW else 2)
    given_name = agree(each.metadata.service_name for each in namers)
    name = given_name or _name_of(domain, leading)
    texts = _texts(leading)
    return DiscoveredService(
        name=name,
        description=texts.description or _description(name, leading),
        domain=UNSET if is_seller(domain) else domain,
        networks=_networks(resources),
        endpoints=_endpoints(grouped, limit),
        category=agree(each.metadata.category for each in namers) or UNSET,
        quality=_quality(resources),
        service_name=given_name or UNSET,
        tags=_tags(leading) or UNSET,
        icon_url=agree(each.metadata.icon_url for each in namers) or UNSET,
        provider=texts.provider or UNSET,
        provider_url=texts.provider_url or UNSET,
        integration_type=texts.integration or UNSET,
        status=texts.status or UNSET,
        guidance=texts.guidance or UNSET,
        info=Raw(texts.info) if texts.info else UNSET,
    )


def _endpoints(grouped: list[GroupedResource], count: int) -> list[Raw]:
    """Return the endpoints of a record, as many as fit."""
    endpoints: list[Raw] = []
    size = 0
    for each in grouped:
        size += len(each.resource.endpoint) + 1
        if len(endpoints) < count and size <= MAX_ENDPOINTS_BYTES:
            each.number = len(endpoints)
            endpoints.append(Raw(each.resource.endpoint))
    return endpoints


def _name_of(domain: str, resources: list[Resource]) -> str:
    """Return a name for a service that gives none: of its host, or of its first MCP tools."""
    if not is_seller(domain):
        return readable_name(domain)
    tools = list(dict.fromkeys(line(each.tool, MAX_NAME) for each in resources))
    return ", ".join(filter(None, tools[:NAMED_TOOLS])) or domain


def _of_commonest_payee(resources: list[Resource]) -> list[Resource]:
    """Return the resources that pay the address which most of them pay, all where none pays any."""
    counts = Counter(payee for resource in resources for payee in resource.payees)
    if not counts:
        return resources
    commonest = min(counts, key=lambda payee: (-counts[payee], payee))
    return [resource for resource in resources if commonest in resource.payees]


def _texts(resources: list[Resource]) -> ServiceTexts:
    """Return the texts of the document that describes most of the resources."""
    given = Counter(astuple(each.texts) for each in resources if each.texts is not None)
    commonest = min(given, key=lambda texts: (-given[texts], texts), default=())
    return ServiceTexts(*commonest)


def _agreed(texts: Iterable[str], count: int, least: int) -> str:
    """Return the commonest text if a third of so many listings, and at least so many, give it."""
    counts = Counter(text for text in texts if text)
    if not counts:
        return ""
    text, given = min(counts.items(), key=lambda item: (-item[1], item[0]))
    return text if given * NAME_SHARE >= count and given >= least else ""


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
    calls = min(sum(usage.calls or 0 for usage in usages), MAX_COUNT)
    payers = usages[0].payers if len(usages) == 1 else None
    last_called = max(usage.last_called for usage in usages)
    if not calls and not payers and not last_called:
        return UNSET
    return DiscoveredQuality(
        total_calls=calls if any(usage.calls is not None for usage in usages) else UNSET,
        unique_payers=UNSET if payers is None else payers,
        last_called_at=last_called or UNSET,
    )
