"""The resources of one host to the record of a service."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Any

from msgspec import Raw, Struct
from msgspec.structs import astuple

from indexer.assets.testnets import is_test_network
from indexer.untrusted import line
from indexer.x402.members.described import ServiceTexts
from indexer.x402.members.metadata import MAX_NAME, MAX_TAGS
from indexer.x402.members.naming import readable_name
from indexer.x402.members.tools import is_seller
from indexer.x402.resource import MAX_COUNT, Resource
from service.networks import network_key

NAMED_TOOLS = 2  # MCP tools in the name of a service that gives none
MAX_DESCRIPTION = 600  # characters, if joined from several endpoints
NAME_SHARE = 3  # a service has a name that one listing in so many gives
FEW = 2  # listings of a host: beyond, one alone cannot name it
MAX_ENDPOINTS_BYTES = 256 * 1024
REQUIRED = frozenset(("name", "description", "networks", "endpoints"))
"""Members of a record that may be empty."""


class GroupedResource(Struct):
    """A resource of a host, the trust in its source, and whether the record of the host has it."""

    resource: Resource
    trust: int
    in_record: bool = False


def group_resources(
    domain: str, grouped: list[GroupedResource], limit: int
) -> tuple[dict[str, Any], list[Resource]]:
    """Return the catalogue record of a host, without an id, and the resource of each endpoint.

    The most called resources, `limit` at most, are endpoints. Texts come from the most trusted
    sources.
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
    listed = _fit(grouped, limit)
    record = {
        "name": name,
        "description": texts.description or _description(name, leading),
        "domain": "" if is_seller(domain) else domain,
        "networks": _networks(resources),
        "endpoints": [Raw(each.endpoint) for each in listed],
        "category": agree(each.metadata.category for each in namers),
        "quality": _quality(resources),
        "serviceName": given_name,
        "tags": _tags(leading),
        "iconUrl": agree(each.metadata.icon_url for each in namers),
        "provider": texts.provider,
        "providerUrl": texts.provider_url,
        "integrationType": texts.integration,
        "status": texts.status,
        "x-guidance": texts.guidance,
        "x-service-info": Raw(texts.info) if texts.info else None,
    }
    return {key: value for key, value in record.items() if value or key in REQUIRED}, listed


def _fit(grouped: list[GroupedResource], count: int) -> list[Resource]:
    """Return the resources that a record has, as many as fit."""
    listed: list[Resource] = []
    size = 0
    for each in grouped:
        size += len(each.resource.endpoint) + 1
        if len(listed) < count and size <= MAX_ENDPOINTS_BYTES:
            each.in_record = True
            listed.append(each.resource)
    return listed


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

    Searches find a service by its description: that of one endpoint would hide the others.
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


def _quality(resources: list[Resource]) -> dict[str, int | str]:
    """Add up calls, but not payers: a payer of two endpoints would count twice."""
    usages = [resource.usage for resource in resources]
    calls = min(sum(usage.calls or 0 for usage in usages), MAX_COUNT)
    payers = usages[0].payers if len(usages) == 1 else None
    last_called = max(usage.last_called for usage in usages)
    if not calls and not payers and not last_called:
        return {}
    quality = {
        "totalCalls": calls if any(usage.calls is not None for usage in usages) else None,
        "uniquePayers": payers,
        "lastCalledAt": last_called or None,
    }
    return {key: value for key, value in quality.items() if value is not None}
