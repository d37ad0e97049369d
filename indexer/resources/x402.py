"""Resources of x402, of versions 1 and 2: bytes to a Resource, whatever a rule says of it.

Version 1 of the protocol has `maxAmountRequired`, names of networks and `outputSchema`; version 2
has `amount`, CAIP-2 identifiers and `extensions.bazaar`. Facts may stand in other usual places.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import msgspec
from msgspec import UNSET

from indexer.errors import InvalidRecord, LeftOut
from indexer.intake.findings import Notice
from indexer.resources.assets import KNOWN_STABLECOINS, Stablecoins
from indexer.resources.entries import (
    INFINITY,
    WITHOUT_ACCEPTS,
    choose,
    explain_price,
    rank_offer,
    read_accepts,
)
from indexer.resources.facts import SPELLINGS, Places, fold, looks_like_fact
from indexer.resources.listing import MAX_ENTRIES, MAX_LISTING, are_of_version_1, list_resource
from indexer.resources.parameters import (
    MAX_METHOD,
    DeclaredInput,
    is_template,
    lacks_example,
    read_body_type,
    read_input,
    read_output,
)
from indexer.resources.parameters import (
    MAX_NAME as MAX_TOOL,
)
from indexer.resources.resource import Resource
from indexer.text import decode_or_invalid, is_own_text, shorten
from indexer.untrusted import (
    decode_object,
    items,
    line,
    mapping,
    objects,
    parse_moment,
    raw_members,
    text,
    url_or_invalid,
)
from service.schema.discovery import Requirement
from service.schema.listings import Advice
from service.urls import DEFAULT_PORTS, ParsedUrl, find_url, with_route

SIZE = "listings that are too large"
NO_SERVER = "MCP tools without a server"
NOT_READ = "not understood: "
MAX_NAME = 100  # characters
MAX_TAG = 50
MAX_TAGS = 20
MAX_ICON_URL = 2048
MAX_REQUIREMENTS = 20
MAX_METHODS = 10
MAX_COUNT = 2**63 - 1
MAX_SETTLED = 500
"""Characters of a description, beyond which facilitators were seen to refuse a payment."""
OF_EXTENSION = frozenset((*SPELLINGS["category"], *SPELLINGS["tags"]))
"""Facts for which the extension counts, of which other members describe the call alone."""
NO_SIGN_IN = frozenset(("none", "no", "public", "free", "x402", "payment", "false"))

_accepts = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_digits = re.compile(r"[0-9]{1,19}")
_tool = re.compile(r"mcp://tool/([^/?#\s]{1,768})", re.IGNORECASE)
_sign_in = re.compile(r"[a-z0-9][a-z0-9._:-]{0,63}")


def read_resource(given: bytes, tokens: Stablecoins = KNOWN_STABLECOINS) -> Resource:
    """Read one resource; raises InvalidRecord with the JSON path of the fault.

    LeftOut is raised for a resource that is too large, and for an MCP tool that nobody can call.
    """
    if len(given) > MAX_LISTING:
        reason = f"has {len(given):,} bytes; at most {MAX_LISTING:,} are listed"
        raise LeftOut(SIZE, "$", reason)
    values = decode_object(given)
    path, stated_url = url_of(values)
    merged = mapping(values, "resource") | values
    entries = _entries_of(values.get("accepts"), given)
    metadata, extension = mapping(values, "metadata"), mapping(merged.get("extensions"), "bazaar")
    read = read_accepts(entries, tokens)
    chosen = choose(read)
    first = entries[chosen] if entries else {}
    extra = mapping(first, "extra")
    facts, tool = Places(merged, metadata), tool_of_url(stated_url)
    server = server_of(merged) if tool else stated_url
    if tool and not server:
        reason = "names no server that has the tool, so that nobody can call it"
        raise LeftOut(NO_SERVER, path, reason)
    parsed = url_or_invalid(server, path)
    route = extension.get("routeTemplate") or facts.find("route", text)
    url = stated_url if tool else with_route(stated_url, route)
    others = [each for each in entries if each is not first]
    holders = [extension, *_infos(merged, metadata), merged, metadata, first, *others, extra]
    declared = read_input(holders, url)
    declared.method = "" if tool else declared.method
    declared.tool = declared.tool or tool
    called = parsed if tool or url == stated_url else url_or_invalid(url, path)
    texts = Places(
        {"description": declared.description}, merged, metadata, extra,
        *({"description": each.get("description")} for each in entries),
        {name: each for name, each in extension.items() if fold(name) in OF_EXTENSION},
    )  # fmt: skip
    quality = mapping(merged, "quality")
    resource = Resource(
        url=url,
        stated_url=stated_url,
        given=parsed.identity,
        identity=called.identity,
        host=parsed.host,
        domain=parsed.domain,
        method=declared.method,
        tool=declared.tool,
        tool_url=_identity(stated_url) if tool else "",
        server=server if declared.tool else "",
        updated=parse_moment(next((each for _, _, each in facts.stated("updated")), None)),
        called=parse_moment(quality.get("lastCalledAt")),
        service_name=texts.line("service name", MAX_NAME) or facts.line("name", MAX_NAME),
        description=texts.find("description", text) or "",
        category=texts.line("category", MAX_NAME),
        tags=texts.find("tags", read_tags) or [],
        icon_url=texts.find("icon", read_icon_url) or "",
        calls=_count(quality.get("l30DaysTotalCalls")),
        payers=_count(quality.get("l30DaysUniquePayers")),
        entries=read,
        parameters=msgspec.json.encode(declared.parameters),
        body_type=declared.body_type,
        is_whole_body=declared.is_whole,
        output=read_output(*_outputs_of(extension, entries, merged, facts)),
        example_url=_example_url(extension.get("exampleUrl"), None if tool else called),
        requires=[*_requirements(merged, facts, len(entries))][:MAX_REQUIREMENTS],
    )
    resource.advice = advise(
        merged, entries, stated_url, declared, resource.description, refers=b'"$ref"' in given
    )
    transport = mapping(mapping(extension, "info"), "input").get("transport")
    resource.transport = "sse" if transport == "sse" else "streamable-http"
    price_resource(resource)
    places = [("$", merged), ("$.metadata", metadata), ("$.extensions.bazaar", extension)]
    places += [("$.accepts[]", each) for each in entries]
    resource.notices += _not_read(resource, places, facts)
    if entries:
        list_resource(resource, given, values)
    return resource


def price_resource(resource: Resource, max_price: Decimal = INFINITY) -> None:
    """Choose the entry that is the price, and note why there is none.

    Raises InvalidRecord for a price that is no amount.
    """
    entries, offers = resource.entries, resource.offers
    resource.chosen = choose(entries, max_price)
    path = f"$.accepts[{resource.chosen}]"
    if not entries and offers:
        resource.chosen = min(range(len(offers)), key=lambda number: rank_offer(offers[number]))
    entry = resource.chosen_entry
    if entry is not None and entry.fault[1]:
        raise InvalidRecord(f"{path}.{entry.fault[0]}", f"is not a price: {entry.fault[1]}")
    notice = explain_price(entry, path if entries else resource.place)
    if entry is None and not resource.place:
        reason = "there is no price: `accepts` has no entry, so the resource is only searchable"
        notice = Notice(WITHOUT_ACCEPTS, "$.accepts", reason)
    others = [each for each in resource.notices if each.kind.startswith(NOT_READ)]
    resource.notices = [notice, *others] if notice else others


def url_of(values: dict[str, Any]) -> tuple[str, str]:
    """Return the JSON path of the URL of a resource, and the URL; raises InvalidRecord."""
    given = values.get("resource")
    if isinstance(given, str):
        return "$.resource", given
    for place, path in ((given, "$.resource"), (values, "$")):
        for _, name, value in Places(place).stated("url"):
            if isinstance(value, str):
                return f"{path}.{name}", value
    for number, entry in enumerate(objects(values, "accepts")):
        if isinstance(url := entry.get("resource"), str):
            return f"$.accepts[{number}].resource", url
    path = "$.resource.url" if isinstance(given, dict) else "$.resource"
    is_missing = given is None or (isinstance(given, dict) and given.get("url") is None)
    raise InvalidRecord(path, f"{'there is no' if is_missing else 'is not a'} URL")


def tool_of_url(url: str) -> str:
    """Return the name of the tool that a URL such as `mcp://tool/forecast` identifies, or empty."""
    match = _tool.fullmatch(url)
    name = unquote(match[1]) if match else ""
    return name if len(name) <= MAX_TOOL and name.isprintable() else ""


def _identity(url: str) -> str:
    parsed = find_url(url)
    return parsed.identity if parsed else ""


def _entries_of(accepts: Any, given: bytes) -> list[dict[str, Any]]:
    """Return the entries of `accepts`; raises InvalidRecord for another value than such a list."""
    entries = [] if accepts is None else accepts
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        decode_or_invalid(_accepts, raw_members(given)["accepts"], "$.accepts")
    if len(entries) > MAX_ENTRIES:
        reason = f"has {len(entries):,} entries; at most {MAX_ENTRIES:,} are listed"
        raise LeftOut(SIZE, "$.accepts", reason)
    return entries


def _infos(*places: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what facilitators keep of the extension beside the URL of a resource."""
    for each in places:
        for name in ("discoveryInfo", "discovery_info", "discovery"):
            if name in each and (found := mapping(each, name)):
                yield found if "info" in found else {"info": found}
                yield found


def server_of(merged: dict[str, Any]) -> str:
    """Return the URL of the MCP server that a resource names, or an empty string."""
    extension = mapping(mapping(merged, "extensions"), "bazaar")
    info = mapping(extension, "info")
    places = mapping(info, "input"), info, extension, mapping(merged, "metadata"), merged
    return Places(*places).find("server", _server) or ""


def _server(value: Any) -> str:
    url = text(value.get("url") if isinstance(value, dict) else value)
    parsed = find_url(url)
    return url if parsed is not None and parsed.scheme in DEFAULT_PORTS else ""


def read_tags(value: Any) -> list[str]:
    """Return the distinct tags of a list, or of a text with commas, regardless of case."""
    tags: dict[str, str] = {}
    given = value.split(",") if isinstance(value, str) else value
    for each in given if isinstance(given, list) else []:
        if tag := line(each, MAX_TAG):
            tags.setdefault(tag.casefold(), tag)
    return list(tags.values())


def read_icon_url(value: Any) -> str:
    """Return a URL that a browser may safely load an image from."""
    url = line(value, MAX_ICON_URL)
    parsed = find_url(url)
    if parsed is None or parsed.is_private or parsed.has_credentials:
        return ""
    return url if parsed.scheme in DEFAULT_PORTS else ""


def _count(value: Any) -> int | None:
    if isinstance(value, str) and _digits.fullmatch(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= MAX_COUNT else None


def _outputs_of(
    extension: dict[str, Any],
    entries: Sequence[dict[str, Any]],
    merged: dict[str, Any],
    facts: Places,
) -> Iterator[Any]:
    """Yield what the extension, the first schema and the resource declare as output."""
    schema = mapping(mapping(mapping(extension, "schema"), "properties"), "output")
    yield mapping(mapping(schema, "properties"), "example")
    yield mapping(mapping(extension, "info"), "output")
    schemas = [mapping(each, "outputSchema") for each in (*entries, merged)]
    outputs = (each.get("output") or each.get("properties") for each in schemas)
    yield next(filter(None, outputs), None)
    yield next((value for _, _, value in facts.stated("output")), None)


def _example_url(value: Any, listed: ParsedUrl | None) -> str:
    """Return a URL of the origin of the listed one that has no placeholder, or an empty string."""
    url = text(value)
    example = find_url(url) if url else None
    if example is None or listed is None or example.has_credentials or is_template(example.rest):
        return ""
    is_same_origin = (example.scheme, example.domain) == (listed.scheme, listed.domain)
    return url if is_same_origin and example.rest != listed.rest else ""


def _requirements(merged: dict[str, Any], facts: Places, count: int) -> Iterator[Requirement]:
    """Yield the sign-ins that are required: for all ways to pay, or for some of so many."""
    for _, _, value in facts.stated("auth"):
        for method in _sign_ins(value if isinstance(value, list) else [value]):
            yield Requirement(methods=[method])
    info = mapping(mapping(merged.get("extensions"), "auth-hints"), "info")
    for hint in objects(info, "authRequirements", MAX_REQUIREMENTS):
        if methods := _sign_ins(items(hint, "methods")):
            indexes = hint.get("acceptIndexes")
            covered = {each for each in items(hint, "acceptIndexes") if type(each) is int}
            is_partial = isinstance(indexes, list) and not covered.issuperset(range(count))
            yield Requirement(methods=methods, some=True if is_partial else UNSET)


def _sign_ins(values: Sequence[Any]) -> list[str]:
    """Return the distinct names of ways to sign in: texts, or objects with a `type`."""
    names = [each.get("type") if isinstance(each, dict) else each for each in values[:MAX_METHODS]]
    valid = (each for each in names if isinstance(each, str) and _sign_in.fullmatch(each))
    return [each for each in dict.fromkeys(valid) if each not in NO_SIGN_IN]


def advise(
    merged: dict[str, Any],
    entries: Sequence[dict[str, Any]],
    url: str,
    declared: DeclaredInput,
    description: str,
    *,
    refers: bool = True,
) -> Advice:
    """Return the faults that the seller can mend; `refers`: whether there is a `$ref` at all."""
    extensions = mapping(merged, "extensions")
    extension = mapping(extensions, "bazaar")
    schemas = [each.get("outputSchema") for each in (*entries, merged)]
    has_parameters = any(each.group != "path" for each in declared.parameters)
    has_input = has_parameters or bool(mapping(mapping(extension, "info"), "input"))
    faults = {
        Advice.NO_INPUT: not has_input and not any(mapping(each, "input") for each in schemas),
        Advice.NO_EXAMPLE: lacks_example(url, declared.parameters),
        Advice.DOUBLE_WRAPPED: "bazaar" in extension
        or "bazaar" in mapping(extensions, "extensions"),
        Advice.EXTERNAL_REF: refers and _refers_outside([extension, *schemas]),
        Advice.WRONG_VERSION: _mixes_versions(merged, entries),
        Advice.NO_TEXT: not is_own_text(description, url),
        Advice.LONG_DESCRIPTION: any(
            len(text(each.get("description"))) > MAX_SETTLED for each in (merged, *entries)
        ),
    }
    return Advice(sum(advice for advice, is_met in faults.items() if is_met))


def _refers_outside(value: Any) -> bool:
    """Whether a schema somewhere in a value refers to another document."""
    if isinstance(value, list):
        return any(map(_refers_outside, value))
    if not isinstance(value, dict):
        return False
    reference = value.get("$ref")
    is_outside = isinstance(reference, str) and not reference.startswith("#")
    return is_outside or any(map(_refers_outside, value.values()))


def _mixes_versions(merged: dict[str, Any], entries: Sequence[dict[str, Any]]) -> bool:
    """Whether the version or the schema of a resource is not that of its entries.

    Schemas of both versions may stand beside each other.
    """
    if not entries:
        return False
    has_schema = any("outputSchema" in each for each in entries)
    has_extension = "bazaar" in mapping(merged, "extensions")
    stated = merged.get("x402Version")
    if are_of_version_1(entries):
        return stated == 2 or (has_extension and not has_schema)
    is_second = all("amount" in each and "maxAmountRequired" not in each for each in entries)
    return is_second and (stated == 1 or (has_schema and not has_extension))


def _not_read(
    resource: Resource, places: Sequence[tuple[str, dict[str, Any]]], facts: Places
) -> Iterator[Notice]:
    """Yield a notice for each member that looks like a fact, and was not understood."""
    names = [f"{path}.{name}" for path, each in places for name in each if looks_like_fact(name)]
    read = {
        "method": resource.method or resource.tool,
        "tags": resource.tags,
        "category": resource.category,
        "icon": resource.icon_url,
        "body type": facts.find("body type", read_body_type),
    }
    for fact, value in read.items():
        if not value:
            names += [f"$.{name}" for _, name, stated in facts.stated(fact) if stated]
    for path in dict.fromkeys(names):
        name = shorten(path.rpartition(".")[2], MAX_METHOD)
        yield Notice(f"{NOT_READ}`{name}`", path, "looks like a fact, and is not understood")
