"""Why something is listed or not: the fates of a URL, and those of a host or a payee."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from msgspec import Meta
from starlette.requests import Request

from service.api.endpoints import EndpointSelection, find_endpoints, page_of_endpoints
from service.api.listing import StoredList, splice
from service.api.query_string import DEFAULT_LIMIT, Limit, Offset, Operation
from service.conditions import about
from service.errors import InvalidParameter
from service.filtering.offers import NONE
from service.http.context import snapshot_of
from service.http.responses import JSON, Cacheable
from service.schema.listings import ADVICE, ListingAdvice
from service.snapshot import Snapshot
from service.snapshot.data import EndpointHits
from service.snapshot.listings import UrlFates, host_hash, payee_hash
from service.storage.texts import text_hash
from service.urls import MAX_HOST, MAX_URL, ParsedUrl, parse_url

NOT_NAMED = "not_named"


ListingUrl = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_URL,
        description="The URL of an endpoint, in any spelling: why it is listed or not.",
    ),
]
Name = Annotated[str, Meta(min_length=1, max_length=MAX_HOST)]


class ExplainListings(Operation, frozen=True, kw_only=True):
    """Say why a URL is listed or not, or list what there is of a host or a payee."""

    url: ListingUrl | None = None
    host: Annotated[
        Name | None,
        about("A host without a port: its listed endpoints, and the number of others."),
    ] = None
    pay_to: Annotated[
        Name | None,
        about("An address that is paid to: its listed endpoints, and the number of others."),
    ] = None
    limit: Limit = DEFAULT_LIMIT
    offset: Offset = 0

    def __post_init__(self) -> None:
        given = [each for each in (self.url, self.host, self.pay_to) if each is not None]
        if len(given) != 1:
            raise InvalidParameter("url", "url is required, or one of host and payTo; give one")

    @property
    def is_expensive(self) -> bool:
        """Whether the answer is more than a few slices."""
        return self.url is None


class ListingExplanation(NamedTuple):
    """Why a URL is listed or not: the URL in normal form, the stored texts, and the advice.

    is_known: whether a source names the URL
    template: the listed template that the URL fills in, where no source lists the URL itself
    """

    url: str
    is_known: bool
    answer: UrlFates
    advice: list[ListingAdvice]
    template: str | None = None

    def respond(self, body: bytes, media_type: str = JSON, **headers: str) -> Cacheable:
        """Return a response about the URL; nobody stores those about unknown ones."""
        control = "" if self.is_known else "no-store"
        return Cacheable(body, media_type, headers, cache_control=control, is_kept=self.is_known)

    def body(self, snapshot: Snapshot) -> bytes:
        """Return the JSON of a `ListingReport`."""
        answer = self.answer
        notes = [*answer.notes, *snapshot.listings.incomplete(answer.fates)]
        return splice(
            {
                "url": self.url,
                "template": self.template,
                "listed": answer.is_listed,
                "fates": StoredList([*answer.fates.values()]),
                "notes": StoredList(notes),
                "advice": self.advice,
            }
        )


async def explain_listings(request: Request, wanted: ExplainListings) -> Cacheable:
    """Say why a URL is listed or not, or list the endpoints of a host or a payee."""
    snapshot = snapshot_of(request)
    if wanted.url is not None:
        explanation = explain_url(snapshot, wanted.url)
        return explanation.respond(explanation.body(snapshot))
    if wanted.host is not None:
        host = _parse_host(wanted.host)
        ordinals = snapshot.listings.of_host(host)
        page = ordinals[wanted.offset : wanted.offset + wanted.limit].tolist()
        hits = EndpointHits(len(ordinals), len(ordinals), page, [NONE] * len(page), snapshot, None)
        key = host_hash(host)
    else:
        payee = wanted.pay_to or ""
        selection = EndpointSelection(
            pay_to=(payee,), per_service=0, limit=wanted.limit, offset=wanted.offset
        )
        key, hits = payee_hash(payee), await find_endpoints(snapshot, selection)
    members = page_of_endpoints(snapshot, wanted.limit, wanted.offset, hits)
    return Cacheable(splice(members | {"others": snapshot.listings.count_others(key)}))


def explain_url(snapshot: Snapshot, url: str) -> ListingExplanation:
    """Return the fates of a URL, or of the listed template that it fills in.

    Raises InvalidParameter.
    """
    parsed = _parse("url", url)
    own = explain(snapshot, text_hash(parsed.key), parsed.identity)
    template = None if own.answer.is_listed else snapshot.listings.template_of(parsed)
    if template is None:
        return own
    listed = explain(snapshot, text_hash(template.key))
    notes = [*listed.answer.notes, *own.answer.fates.values(), *own.answer.notes]
    return own._replace(
        answer=listed.answer._replace(notes=notes),
        advice=listed.advice,
        template=template.identity,
    )


def explain(snapshot: Snapshot, key: int, url: str = "") -> ListingExplanation:
    """Return the fates of a URL, or of the place of a record, by its hash."""
    answer = snapshot.listings.find(key)
    is_known = answer.is_listed or bool(answer.fates or answer.notes)
    advice = [ListingAdvice(str(bit.name).lower(), ADVICE[bit]) for bit in answer.advice]
    return ListingExplanation(url, is_known, answer, advice if is_known else [_invite(snapshot)])


def _invite(snapshot: Snapshot) -> ListingAdvice:
    names = snapshot.listings.read_sources
    text = (
        "no source of this catalogue names the URL; it is listed once one of them does: "
        f"{', '.join(names)}"
    )
    return ListingAdvice(NOT_NAMED, text)


def _parse(parameter: str, url: str) -> ParsedUrl:
    try:
        return parse_url(url)
    except ValueError as error:
        raise InvalidParameter(parameter, f"{parameter} {error}") from error


def _parse_host(host: str) -> str:
    parsed = _parse("host", f"https://{host}/")
    if parsed.identity != f"https://{parsed.host}/" or parsed.has_credentials:
        raise InvalidParameter("host", "host is no host name alone, such as api.example.com")
    return parsed.host
