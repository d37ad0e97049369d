"""Visits of one origin: robots.txt, a path that nobody lists, then each endpoint once."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import httpx
from protego import Protego

from indexer.intake.connections import ForbiddenAddress
from indexer.probes.observation import REFUSED, Observation, Outcome
from indexer.probing.client import AGENT, NoResponse, ProbeClient, Response
from indexer.probing.quotes import read_quotes
from indexer.probing.targets import Target
from indexer.x402.members.naming import registrable_domain
from service.schema.values import format_timestamp
from service.urls import DEFAULT_PORTS

MAX_DELAY = 60
"""Seconds between two requests; a site that wants more counts as one that wants no visits."""
MAX_SILENT = 5
"""Requests in a row without a response, after which a host is left alone until the next run."""
MAX_ROBOTS_REDIRECTS = 5  # of robots.txt, within one site
MAX_RULES = 5_000
"""Lines of robots.txt; the file of a site that has more counts as one that disallows everything."""
DISALLOW_ALL = b"User-agent: *\nDisallow: /"

_version = re.compile(r"(?im)^([ \t]*user-agent[ \t]*:[ \t]*[A-Za-z_-]+)/\S*")


class OriginVisit:
    """The visit of some endpoints of one origin (scheme, host and port).

    delay: seconds between two requests, until robots.txt asks for more
    wildcard: whether the origin answers 402 to any path, None where that is not known yet
    """

    def __init__(
        self,
        client: ProbeClient,
        targets: Sequence[Target],
        record: Callable[[Observation], None],
        delay: float,
        wildcard: bool | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client, self._targets, self._record = client, targets, record
        self._delay, self._wildcard, self._sleep = delay, wildcard, sleep
        self._origin = targets[0].origin

    async def run(self) -> None:
        """Make the requests, each followed by a pause."""
        try:
            robots = await self._read_robots()
        except ForbiddenAddress:
            self._record_all(self._targets, Outcome.NOT_PROBED)
            return
        except NoResponse as error:  # without a connection none of the endpoints has one either
            outcome = Outcome.BLOCKED if error.is_connected else Outcome.UNREACHABLE
            self._record_all(self._targets, outcome)
            await self._sleep(self._delay)
            return
        allowed = [each for each in self._targets if robots.can_fetch(each.rest, AGENT)]
        self._record_all([each for each in self._targets if each not in allowed], Outcome.BLOCKED)
        unlisted = f"/{AGENT}-{secrets.token_hex(8)}"
        if allowed and self._wildcard is None and robots.can_fetch(unlisted, AGENT):
            with suppress(NoResponse, ForbiddenAddress):  # the endpoints may answer all the same
                response = await self._request("GET", self._origin + unlisted)
                self._wildcard = response.status == HTTPStatus.PAYMENT_REQUIRED
        silent = 0
        for target in allowed:
            observation = await self._visit(target)
            self._record(observation)
            silent = silent + 1 if observation.status is None else 0
            if silent == MAX_SILENT or observation.status == HTTPStatus.TOO_MANY_REQUESTS:
                return

    async def _read_robots(self) -> Protego:
        """Read robots.txt, whose redirects are followed within the site, and its delay.

        Raises NoResponse and ForbiddenAddress of the origin itself.
        """
        url, robots = f"{self._origin}/robots.txt", parse_robots(b"")
        for hop in range(1 + MAX_ROBOTS_REDIRECTS):
            try:
                response = await self._client.request("GET", url, read=HTTPStatus.OK)
            except (NoResponse, ForbiddenAddress):
                if not hop:
                    raise
                return parse_robots(DISALLOW_ALL)
            robots = _rules(response)
            delay = robots.crawl_delay(AGENT) or 0
            if delay > MAX_DELAY:
                robots = parse_robots(DISALLOW_ALL)
            else:
                self._delay = max(self._delay, delay)
            await self._sleep(self._delay)
            url = _redirect(url, response)
            if not url:
                break
        return robots

    async def _request(self, method: str, url: str, *body: Any, **options: Any) -> Response:
        try:
            return await self._client.request(method, url, *body, **options)
        finally:
            await self._sleep(self._delay)

    async def _visit(self, target: Target) -> Observation:
        """Return how an endpoint answers; a redirect is an answer like others.

        A payment goes to the listed URL, so that the quote of another one would say nothing of it.
        """
        paid, url = HTTPStatus.PAYMENT_REQUIRED, target.origin + target.rest
        try:
            response = await self._request(
                target.method, url, target.body, target.media_type, read=paid
            )
        except ForbiddenAddress:  # since robots.txt was read
            return observe(target, Outcome.NOT_PROBED)
        except NoResponse:
            return observe(target, Outcome.UNREACHABLE, wildcard=self._wildcard)
        status = response.status
        quotes = read_quotes(response.headers, response.body or b"") if status == paid else []
        outcome = Outcome.BLOCKED if status in REFUSED else Outcome.ANSWERED
        return observe(
            target,
            Outcome.QUOTED if quotes else outcome,
            status=status,
            latency_ms=response.latency,
            quotes=quotes,
            wildcard=self._wildcard,
        )

    def _record_all(self, targets: Sequence[Target], outcome: Outcome) -> None:
        for target in targets:
            self._record(observe(target, outcome))


def observe(endpoint: Target, outcome: Outcome, **facts: Any) -> Observation:
    """Return an observation of an endpoint that is made now."""
    return Observation(
        url=endpoint.url,
        method=endpoint.method,
        observed_at=format_timestamp(datetime.now(UTC)),
        outcome=outcome,
        prober=AGENT,
        **facts,
    )


def parse_robots(content: bytes) -> Protego:
    """Return the rules of robots.txt.

    A version behind the name of an agent, which RFC 9309 does not know, is ignored.
    """
    if content.count(b"\n") > MAX_RULES:
        content = DISALLOW_ALL
    return Protego.parse(_version.sub(r"\1", content.decode("utf-8-sig", "replace")))


def _rules(response: Response) -> Protego:
    """Return the rules of robots.txt: none where a client error says that there is no file."""
    status = response.status
    is_fault = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS
    if is_fault or response.body is None:
        return parse_robots(DISALLOW_ALL)
    return parse_robots(response.body if status == HTTPStatus.OK else b"")


def _redirect(url: str, response: Response) -> str:
    """Return the target of a redirect within one site, or an empty string."""
    if not HTTPStatus.MOVED_PERMANENTLY <= response.status < HTTPStatus.BAD_REQUEST:
        return ""
    try:
        source = httpx.URL(url)
        target = source.join(response.headers["location"])
    except (httpx.InvalidURL, UnicodeError, KeyError):
        return ""
    sites = {registrable_domain(each.raw_host.decode()) for each in (source, target)}
    return str(target) if len(sites) == 1 and target.scheme in DEFAULT_PORTS else ""
