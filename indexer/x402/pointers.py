"""Bare pointers: URLs without a way to pay, listed where another source says more of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct

from indexer.errors import InvalidRecord, LeftOut
from indexer.intake.records import DESCRIBED
from indexer.resources.resource import Resource
from indexer.x402.described import (
    DescribedResource,
    Fields,
    decode_fields,
    described_of,
    encode_fields,
)
from indexer.x402.discovery import PATH, Discovery, Dropped, Place
from indexer.x402.endpoints import EndpointPayees, split_methods
from service.urls import key_of

BARE = "bare pointers"
REASON = "is a bare pointer: no source or probe says more"
ANY = ""
"""The method of a resource that declares none."""
MAX_GIVING = 16
"""Pointers of one URL and method of which a resource may take what it lacks."""

_encode = msgspec.json.Encoder().encode


def join_pointers(discovery: Discovery) -> None:
    """Join pointers to the resources of their URLs that other sources list, once these are merged.

    A pointer without a method joins all resources of its URL, other pointers those of their method,
    else those that declare none. Members that a resource lacks come from pointers of at least its
    trust.
    """
    by_domain: dict[str, list[str]] = defaultdict(list)
    for url, pointers in discovery.pointers.items():
        by_domain[discovery.outline(pointers[0]).domain].append(url)
    for domain, urls in by_domain.items():
        if places := discovery.of_domain(domain):
            discovery.replace(domain, _join(discovery, places, urls))


def settle_pointers(discovery: Discovery, endpoints: EndpointPayees) -> None:
    """Take out the pointers that a catalogue record lists, which stand by its word."""
    for given, method in endpoints:
        url = key_of(given)
        if url in discovery.pointers:
            pointers = discovery.pointers[url]
            left = [each for each in pointers if method not in split_methods(each.method)]
            discovery.wait(url, left)


def drop_pointers(discovery: Discovery) -> None:
    """Leave out the pointers of which nothing says more."""
    fault = LeftOut(BARE, PATH, REASON)
    for pointers in discovery.pointers.values():
        discovery.dropped += [Dropped(each, fault) for each in pointers]
    discovery.pointers.clear()


class _Joined(Struct):
    """A resource that pointers join.

    pointers: whose members complete the resource, the most trusted first
    counted: pointers that are counted with this resource alone
    """

    place: Place
    outline: Resource
    pointers: list[Place] = []
    counted: list[Place] = []


def _join(discovery: Discovery, places: Iterable[Place], urls: Iterable[str]) -> list[Place]:
    """Return the resources of a domain, joined by the pointers to these URLs."""
    joined = [_Joined(place, discovery.outline(place)) for place in places]
    by_url: dict[str, list[_Joined]] = defaultdict(list)
    for each in joined:
        for url in {key_of(each.outline.given), key_of(each.outline.identity)}:
            by_url[url].append(each)
    for url in urls:
        if url in by_url:
            discovery.wait(url, _join_url(discovery, by_url[url], discovery.pointers[url]))
    keys = {each.outline.key for each in joined}
    return [_complete(discovery, each, keys) for each in joined]


def _join_url(discovery: Discovery, found: list[_Joined], pointers: list[Place]) -> list[Place]:
    """Join pointers to the resources of their URL; returns those that join none."""
    by_method: dict[str, list[_Joined]] = defaultdict(list)
    for each in found:
        for name in split_methods(each.place.method) if each.place.method else [ANY]:
            by_method[name].append(each)
    given: dict[str, list[Place]] = defaultdict(list)
    rest = []
    trust = max(each.place.trust for each in found)
    for pointer in sorted(pointers, key=lambda each: (-each.trust, each.source)):
        names = [*by_method]
        if pointer.method:
            declared = sorted(split_methods(pointer.method) & by_method.keys())
            names = declared or [name for name in (ANY,) if name in by_method]
        for name in names:
            given[name].append(pointer)
        if names:
            by_method[names[0]][0].counted.append(pointer)
        elif trust > pointer.trust:
            discovery.outrank(pointer)
        else:
            rest.append(pointer)
    for name, joining in given.items():
        for each in by_method[name]:
            each.pointers += joining[:MAX_GIVING]
    return rest


def _complete(discovery: Discovery, joined: _Joined, keys: set[str]) -> Place:
    """Return a resource with the members that it lacks and its pointers have.

    The method is added where all pointers declare the same, and no key of `keys` results.
    """
    place, outline = joined.place, joined.outline
    place.others = (*place.others, *joined.counted)
    believed = [each for each in joined.pointers[:MAX_GIVING] if each.trust >= place.trust]
    if not believed:
        return place
    methods = {each.method for each in believed} - {ANY}
    if place.method == ANY and not outline.tool and len(methods) == 1:
        (outline.method,) = methods
        if outline.key in keys:
            outline.method = ANY
    fields = decode_fields(discovery.text(place))
    completed = fields | _lacking(discovery, place, fields, believed)
    if completed == fields and outline.method == place.method:
        return place
    try:
        fresh = discovery.rewrite(place, encode_fields(completed), outline.method)
    except InvalidRecord:  # with these, it breaks a rule that it keeps
        return place
    fresh.others = place.others
    return fresh


def _lacking(
    discovery: Discovery, place: Place, fields: Fields, pointers: Iterable[Place]
) -> Fields:
    """Return the members that a resource lacks, from the first pointer that has each."""
    found: Fields = {}
    readings = discovery.readings
    has_description = bool(readings.outline(place.number).description)
    for pointer in pointers:
        text = discovery.text(pointer)
        description = readings.outline(pointer.number).description
        if description and not has_description:
            found.setdefault("description", Raw(_encode(description)))
        requires = decode_fields(text).get("requires")
        if requires is not None and "requires" not in fields:
            found.setdefault("requires", requires)
        described = described_of(text)
        if described and described.service and DESCRIBED not in fields:
            found.setdefault(DESCRIBED, Raw(_encode(DescribedResource(service=described.service))))
    return found
