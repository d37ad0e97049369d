"""The resources of one host to the record of a service."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import astuple

from indexer.resources.assets import is_test_network
from indexer.resources.names import readable_name
from indexer.resources.resource import Resource, ServiceTexts
from indexer.resources.x402 import MAX_COUNT, MAX_TAGS
from indexer.untrusted import MICROSECOND, NEVER
from service.networks import network_key
from service.schema.values import EPOCH, format_timestamp

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
        key=lambda each: (-each.trust, -(each.resource.calls or 0), each.resource.key),
    )
    trust = max(each.trust for each in grouped)
    resources = [each.resource for each in grouped]
    leading = [each.resource for each in grouped if each.trust == trust]
    described = [each for each in leading if each.texts is not None and each.texts.has_names]
    namers = described or _of_commonest_payee(leading)
    agree = partial(_agreed, count=len(namers), least=1 if len(leading) <= FEW else 2)
    given_name = agree(each.service_name for each in namers)
    name = given_name or readable_name(domain)
    texts = _texts(leading)
    listed, encoded = _fit(grouped, limit)
    record = {
        "name": name,
        "description": texts.description or _description(name, leading),
        "domain": domain,
        "networks": _networks(resources),
        "endpoints": [Raw(each) for each in encoded],
        "category": agree(each.category for each in namers),
        "quality": _quality(resources),
        "serviceName": given_name,
        "tags": _tags(leading),
        "iconUrl": agree(each.icon_url for each in namers),
        "provider": texts.provider,
        "providerUrl": texts.provider_url,
        "integrationType": texts.integration,
        "status": texts.status,
        "x-guidance": texts.guidance,
        "x-service-info": Raw(texts.info) if texts.info else None,
    }
    return {key: value for key, value in record.items() if value or key in REQUIRED}, listed


def _fit(grouped: list[GroupedResource], count: int) -> tuple[list[Resource], list[bytes]]:
    """Return the resources that a record has, as many as fit, and their endpoints as JSON."""
    listed: list[Resource] = []
    encoded: list[bytes] = []
    size = 0
    for each in grouped:
        endpoint = msgspec.json.encode(each.resource.to_endpoint())
        size += len(endpoint) + 1
        if len(listed) < count and size <= MAX_ENDPOINTS_BYTES:
            each.in_record = True
            listed.append(each.resource)
            encoded.append(endpoint)
    return listed, encoded


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
    texts = dict.fromkeys(each.description or each.service_name for each in resources)
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
    tags = [tag for resource in resources for tag in resource.tags]
    spellings = {tag.casefold(): tag for tag in reversed(tags)}
    counts = Counter(tag.casefold() for tag in tags).most_common(MAX_TAGS)
    return [spellings[key] for key, _ in counts]


def _quality(resources: list[Resource]) -> dict[str, int | str]:
    """Add up calls, but not payers: a payer of two endpoints would count twice."""
    stated = [each.calls for each in resources if each.calls is not None]
    payers = resources[0].payers if len(resources) == 1 else None
    called = max(each.called for each in resources)
    if not any(stated) and not payers and called == NEVER:
        return {}
    quality = {
        "totalCalls": min(sum(stated), MAX_COUNT) if stated else None,
        "uniquePayers": payers,
        "lastCalledAt": None if called == NEVER else format_timestamp(EPOCH + called * MICROSECOND),
    }
    return {key: value for key, value in quality.items() if value is not None}
