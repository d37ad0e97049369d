"""Documents that describe paid services, the hosts for which they speak, and their bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any
from urllib.parse import urljoin, urlsplit

import msgspec
from msgspec.structs import astuple

from indexer.errors import InvalidRecord, LeftOut
from indexer.intake.fates import NO_ADVICE
from indexer.intake.findings import Notice
from indexer.intake.lists import SourceRecord
from indexer.intake.rules import fold_host, host_pattern
from indexer.options import SourceOptions
from indexer.resources.assets import KNOWN_STABLECOINS, Stablecoins
from indexer.resources.entries import Entry, merge_offers
from indexer.resources.facts import SPELLINGS, Places, fold, looks_like_fact
from indexer.resources.listing import MAX_LISTING
from indexer.resources.names import registrable_domain
from indexer.resources.parameters import DeclaredInput, lacks_example
from indexer.resources.resource import Resource, ServiceTexts
from indexer.resources.x402 import MAX_NAME, MAX_TAGS, NOT_READ, SIZE, price_resource
from indexer.text import is_own_text, shorten
from indexer.untrusted import items, line, text, url_or_invalid
from service.schema.listings import Advice
from service.urls import ParsedUrl, parse_url

FREE = "free operations"
"""The rule that leaves out operations without a price."""
SIGN_IN = "operations of a sign-in alone"
OTHER_HOSTS = "hosts of others"
BARE = "bare pointers"
MAX_RESOURCES = 64 * 2**20  # bytes of the resources of a document
MAX_TEXT = 5_000  # characters
AMOUNTS = frozenset(
    name for fact in ("amount", "base amount", "price", "least", "most") for name in SPELLINGS[fact]
)

_encode = msgspec.msgpack.Encoder().encode
_encode_json = msgspec.json.Encoder().encode


class Described(SourceRecord):
    """An operation or entry of a document: its resource, or the fault for which there is none.

    text: JSON of its URL, as far as that is known
    """

    resource: Resource | None = None

    @classmethod
    def refuse(cls, position: str, fault: InvalidRecord, url: str = "") -> Described:
        """Return an operation, at a URL where that is known, that has a fault."""
        return cls(position, _encode_json({"resource": url}) if url else b"", fault)

    @classmethod
    def accept(cls, position: str, resource: Resource) -> Described:
        """Return an operation that has a resource."""
        return cls(position, _encode_json({"resource": resource.stated_url}), resource=resource)


class Document:
    """The text of a document, its source, the tokens of its prices, and a check of its servers.

    A document may describe the hosts that the operator names, else all hosts for a curated source,
    else those of the registrable domain of the URL of its source, and none for a file.

    check: raises LeftOut for a URL at a JSON path that the policy does not list
    """

    def __init__(
        self,
        content: bytes,
        source: SourceOptions,
        stablecoins: Stablecoins = KNOWN_STABLECOINS,
        check: Callable[[str, ParsedUrl], object] = lambda *_: None,
    ) -> None:
        self.text, self.stablecoins = content, stablecoins
        self._check = check
        self._hosts = [host_pattern(fold_host(each)) for each in source.hosts]
        self._is_curated = source.curated
        self._domain = registrable_domain(parse_url(source.url).host) if source.url else ""
        self._base = self._url = source.url
        if not source.url and len(source.hosts) == 1 and "*" not in source.hosts[0]:
            self._base = f"https://{source.hosts[0]}/"

    def resolve(self, path: str, url: str, kind: str = "a document") -> str:
        """Return the absolute form of a URL at a JSON path; raises InvalidRecord.

        A relative URL is one of the source, or of the only host that the operator names.
        """
        if "://" in url:
            return url
        if not self._base:
            reason = f"is a relative URL of {kind}; name its host in `hosts` of the source"
            raise InvalidRecord(path, reason)
        try:
            return urljoin(self._base, url)
        except ValueError as error:
            raise InvalidRecord(path, f"is not a URL: {error}") from error

    def check_host(self, path: str, url: str) -> ParsedUrl:
        """Return a URL that the document may describe.

        Raises InvalidRecord for a text at a JSON path that is no URL, LeftOut for other hosts.
        """
        parsed = url_or_invalid(url, path)
        host = parsed.host
        if self._hosts:
            is_own = any(each.fullmatch(host) for each in self._hosts)
        else:
            is_own = self._is_curated or (
                self._domain != "" and registrable_domain(host) == self._domain
            )
        if not is_own:
            reason = "is none of the `hosts` of the source"
            if self._domain and not self._hosts:
                reason = f"is outside of {self._domain}, from which the document was fetched"
            raise LeftOut(OTHER_HOSTS, path, f"{host} {reason}")
        return parsed

    def choose_server(self, path: str, urls: Sequence[str]) -> str:
        """Return the first of several absolute URLs whose host is public and of the document.

        Where the policy admits none, the origin from which the document was fetched, if any.
        """
        admitted = [url for url in urls if self._is_admitted(path, url)]
        for url in admitted:
            try:
                self.check_host(path, url)
            except InvalidRecord:
                continue
            return url
        if not admitted and self._url:
            return urlsplit(self._url)._replace(path="/", query="", fragment="").geturl()
        return (admitted or urls)[0]

    def _is_admitted(self, path: str, url: str) -> bool:
        """Whether the policy lists URLs of a server."""
        try:
            self._check(path, url_or_invalid(url, path))
        except InvalidRecord:
            return False
        return True


class Bounds:
    """Counts the paid operations of a document, and the bytes of their resources.

    name: of what is counted, and where, for messages
    """

    def __init__(self, most: int, name: str = "paid operations, the most of one document") -> None:
        self._most, self._name = most, name
        self._count = self._bytes = 0

    def count(self, place: str) -> None:
        """Count the paid operation at a JSON path; raises LeftOut beyond the most."""
        if self._count >= self._most:
            raise LeftOut(SIZE, place, f"follows {self._most:,} {self._name}")
        self._count += 1

    def fit(self, resource: Resource, place: str) -> Resource:
        """Return a resource that fits in those of the document; raises LeftOut."""
        size = len(_encode(resource))
        if size > MAX_LISTING:
            reason = f"has {size:,} bytes; at most {MAX_LISTING:,} are listed"
            raise LeftOut(SIZE, place, reason)
        if self._bytes + size > MAX_RESOURCES:
            reason = f"exceeds the {MAX_RESOURCES:,} bytes that the resources of a document have"
            raise LeftOut(SIZE, place, reason)
        self._bytes += size
        return resource


def make_resource(
    url: str,
    parsed: ParsedUrl,
    method: str,
    offers: list[Entry],
    place: str,
    *,
    declared: DeclaredInput,
    notices: Sequence[Notice] = (),
    advice: Advice = NO_ADVICE,
    **fields: Any,
) -> Resource:
    """Return the resource of an operation whose payment stands at a JSON path.

    parsed: its URL
    declared: how it is called
    notices: beside those on its price
    fields: further members of the resource
    """
    if lacks_example(url, declared.parameters):
        advice |= Advice.NO_EXAMPLE
    if not is_own_text(fields.get("description", ""), url):
        advice |= Advice.NO_TEXT
    resource = Resource(
        url=url,
        stated_url=url,
        given=parsed.identity,
        identity=parsed.identity,
        host=parsed.host,
        domain=parsed.domain,
        method=method,
        offers=offers,
        place=place,
        parameters=msgspec.json.encode(declared.parameters),
        body_type=declared.body_type,
        is_whole_body=declared.is_whole,
        advice=advice,
        **fields,
    )
    price_resource(resource)
    resource.notices += notices
    return resource


def join_resources(listed: Resource | None, resources: Sequence[Resource]) -> Resource:
    """Return what several sources say of one call, the first before the others.

    listed: what the feeds among them say together, None without any
    """
    joined = copy(listed or resources[0])
    values = [listed if each.is_listed and listed else each for each in resources]
    for name in ("service_name", "description", "category", "tags", "icon_url", "requires"):
        stated = (getattr(each, name) for each in values)
        setattr(joined, name, next(filter(None, stated), getattr(joined, name)))
    declaring = next((each for each in values if _declares_input(each)), joined)
    joined.parameters, joined.body_type = declaring.parameters, declaring.body_type
    joined.is_whole_body = declaring.is_whole_body
    joined.offers = merge_offers(each.offers for each in resources)
    texts = [astuple(each.texts) for each in resources if each.texts is not None]
    if texts:
        columns = zip(*texts, strict=True)
        joined.texts = ServiceTexts(*(next(filter(None, each), each[0]) for each in columns))
    joined.place = next((each.place for each in resources if each.place), "")
    price_resource(joined)
    return joined


def _declares_input(resource: Resource) -> bool:
    """Whether a resource has parameters beside the placeholders of its URL."""
    return any(b'"group":"%b"' % group in resource.parameters for group in (b"query", b"body"))


def price_places(*objects: dict[str, Any]) -> Places:
    """Return objects as places of facts, of which the first with an amount alone has amounts."""
    places: list[dict[str, Any]] = []
    has_amount = False
    for each in objects:
        amounts = {name for name in each if fold(name) in AMOUNTS}
        places.append({name: each[name] for name in each if not has_amount or name not in amounts})
        has_amount |= any(
            each[name] not in (None, "") and not isinstance(each[name], dict) for name in amounts
        )
    return Places(*places)


def find_unread(path: str, *objects: Any) -> list[Notice]:
    """Return a notice for each member that looks like a fact of a payment and was not read."""
    names = (name for each in objects if isinstance(each, dict) for name in each)
    reason = "looks like a fact of the payment, and is not understood"
    return [
        Notice(f"{NOT_READ}`{shorten(name, MAX_NAME)}`", f"{path}.{name[:MAX_NAME]}", reason)
        for name in dict.fromkeys(names)
        if looks_like_fact(name)
    ]


def read_text(value: Any) -> str:
    """Return a text of a document, without blanks at its ends and cut at MAX_TEXT."""
    return text(value).strip()[:MAX_TEXT]


def read_names(values: dict[str, Any], key: str) -> list[str]:
    """Return the distinct names in the list under a key, of MAX_TAGS at most."""
    names = (line(each, MAX_NAME) for each in items(values, key, MAX_TAGS))
    return list(dict.fromkeys(filter(None, names)))
