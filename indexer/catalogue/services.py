"""Discovered services: the resources of one host to the record of a service."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw
from msgspec.structs import astuple

from indexer.catalogue.known import KnownResults, ResultKeys
from indexer.catalogue.reading import in_batches
from indexer.catalogue.records import Record, read_record
from indexer.catalogue.table import ItemRow, ItemTable, decode_resource
from indexer.processes.pool import Pool
from indexer.resources.assets import is_test_network
from indexer.resources.names import readable_name
from indexer.resources.resource import Resource, ServiceTexts
from indexer.resources.x402 import MAX_COUNT, MAX_TAGS
from indexer.untrusted import MICROSECOND, NEVER
from service.networks import network_key
from service.schema.values import EPOCH, format_timestamp

MAX_DESCRIPTION = 600  # characters, of several endpoints
NAME_SHARE = 3  # a service has a name that one listing in so many gives
FEW = 2  # listings of a host: beyond, one alone cannot name it
MAX_ENDPOINTS_BYTES = 256 * 1024
REQUIRED = frozenset(("name", "description", "networks", "endpoints"))
"""Members of a record that may be empty."""


class HostItems(NamedTuple):
    """The items of a discovered service.

    key: the domain, followed by the path of a service that shares the domain
    members: the items, with their resources
    """

    key: str
    domain: str
    members: list[tuple[ItemRow, bytes]]

    @property
    def rows(self) -> list[ItemRow]:
        """The rows of the items."""
        return [row for row, _ in self.members]

    @property
    def size(self) -> int:
        """The bytes of the resources."""
        return sum(len(resource) for _, resource in self.members)

    @property
    def newest(self) -> ItemRow:
        """The newest of the items, among equals the most trusted."""
        return max(self.rows, key=lambda row: (row.updated, row.trust, row.source))


class GroupRecord(NamedTuple):
    """The record of a service, and for each of its items whether the record has it."""

    record: Record
    outputs: list[str]
    in_record: list[bool]


Paths = Mapping[str, Sequence[str]]
ItemMembers = list[tuple[bytes, int]]
"""The bytes of resources, and the trust in their sources."""
Group = tuple[str, str, ItemMembers]
"""The id and the domain of a service, and its items."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(GroupRecord).decode


def describe_services(
    pool: Pool,
    table: ItemTable,
    paths: Paths,
    ids: Mapping[str, str],
    limit: int,
    known: KnownResults | None = None,
) -> Iterator[tuple[HostItems, GroupRecord]]:
    """Yield the services of the items that no service has, with their records.

    paths: of the services of domains that have several
    ids: by the keys of the services
    limit: the greatest number of endpoints
    """
    key_of = ResultKeys("describe", limit)

    def look_up(items: HostItems) -> tuple[HostItems, Group, bytes, bytes | None]:
        members = [(resource, row.trust) for row, resource in items.members]
        group = ids[items.key], items.domain, members
        key = key_of(_encode(group))
        return items, group, key, None if known is None else known.find(key)

    def describe(
        batch: list[tuple[HostItems, Group, bytes, bytes | None]],
    ) -> Future[list[GroupRecord]]:
        unknown = [group for _, group, _, found in batch if found is None]
        return pool.submit(describe_groups, unknown, limit)

    found = map(look_up, find_groups(table, paths))
    for batch, answers in in_batches(pool, found, lambda each: each[0].size, describe):
        described = iter(answers)
        for items, _, key, result in batch:
            record = next(described) if result is None else _decode(result)
            if result is None and known is not None:
                known.add(key, _encode(record))
            yield items, record


def find_groups(table: ItemTable, paths: Paths) -> Iterator[HostItems]:
    """Yield the items that no service has, by domain and path.

    An item belongs to the service with the longest path above its URL, whichever source lists it.
    """
    for domain in sorted(table.domains()):
        known = frozenset(paths.get(domain, ()))
        by_key: dict[str, list[tuple[ItemRow, bytes]]] = defaultdict(list)
        for row, resource in table.unserved(domain):
            by_key[_key_of(row, known)].append((row, resource))
        for key, members in sorted(by_key.items()):
            yield HostItems(key, domain, members)


def _key_of(row: ItemRow, paths: frozenset[str]) -> str:
    url = row.url.lower().partition("?")[0]
    path = url.partition("://")[2].removeprefix(row.domain) if paths else ""
    while path and path not in paths:
        path = path.rpartition("/")[0]
    return row.domain + path


def describe_groups(groups: list[Group], limit: int) -> list[GroupRecord]:
    """Return the records of groups with their ids and domains, in a worker or here."""
    return [describe_group(*each, limit) for each in groups]


def describe_group(service_id: str, domain: str, members: ItemMembers, limit: int) -> GroupRecord:
    """Return the record of the items of a host.

    The most called resources, `limit` at most, are endpoints but where one does not fit any more.
    Texts come from the most trusted sources.
    """
    resources = [decode_resource(each) for each, _ in members]
    trusts = [trust for _, trust in members]
    order = sorted(
        range(len(members)),
        key=lambda n: (-trusts[n], -(resources[n].calls or 0), resources[n].key),
    )
    endpoints: dict[int, bytes] = {}
    size = 0
    for n in order[:limit]:
        endpoint = msgspec.json.encode(resources[n].to_endpoint())
        if size + len(endpoint) + 1 <= MAX_ENDPOINTS_BYTES:
            size += len(endpoint) + 1
            endpoints[n] = endpoint
    leading = [resources[n] for n in order if trusts[n] == max(trusts)]
    fields = describe(domain, [resources[n] for n in order], leading, [*endpoints.values()])
    record = read_record(msgspec.json.encode({"id": service_id} | fields))
    outputs = [resources[n].output for n in endpoints]
    in_record = [n in endpoints for n in range(len(members))]
    return GroupRecord(record, outputs if any(outputs) else [], in_record)


def describe(
    domain: str, resources: list[Resource], leading: list[Resource], endpoints: list[bytes]
) -> dict[str, Any]:
    """Return the catalogue record of a host, without an id.

    leading: the resources of the most trusted sources
    endpoints: of the most called ones, as JSON
    """
    described = [each for each in leading if each.texts is not None and each.texts.has_names]
    namers = described or _of_commonest_payee(leading)
    agree = partial(_agreed, count=len(namers), least=1 if len(leading) <= FEW else 2)
    given_name = agree(each.service_name for each in namers)
    name = given_name or readable_name(domain)
    texts = _texts(leading)
    record = {
        "name": name,
        "description": texts.description or _description(name, leading),
        "domain": domain,
        "networks": _networks(resources),
        "endpoints": [Raw(each) for each in endpoints],
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
    return {key: value for key, value in record.items() if value or key in REQUIRED}


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
    if len(resources) > 1 and len(description) > MAX_DESCRIPTION:
        end = description.rfind(" ", MAX_DESCRIPTION // 2, MAX_DESCRIPTION)
        description = f"{description[: end if end > 0 else MAX_DESCRIPTION - 1]}…"
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
