"""Visits of one origin: robots.txt, a path that nobody lists, then each endpoint once."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import httpx

from indexer.intake.connections import ForbiddenAddress
from indexer.probes.observation import REFUSED, Observation, Outcome, Quote
from indexer.probing.client import AGENT, NoResponse, ProbeClient, Response
from indexer.probing.quotes import read_quotes
from indexer.probing.robots import DISALLOW_ALL, Robots
from indexer.probing.targets import ObservedEndpoint, Target
from indexer.resources.names import registrable_domain
from service.schema.values import format_timestamp
from service.urls import DEFAULT_PORTS

MAX_DELAY = 60
"""Seconds between two requests; a site that wants more counts as one that wants no visits."""
MAX_SILENT = 5
"""Requests in a row without a response, after which a host is left alone until the next run."""
MAX_ROBOTS_REDIRECTS = 5  # of robots.txt, within one site
REDIRECTS = frozenset((301, 302, 303, 307, 308))

Recorder = Callable[[Observation], None]
Sleep = Callable[[float], Awaitable[None]]


class OriginVisit:
    """The visit of some endpoints of one origin (scheme, host and port).

    delay: seconds between two requests, until robots.txt asks for more
    wildcard: whether the origin answers 402 to any path, None where that is not known yet
    """

    def __init__(
        self,
        client: ProbeClient,
        targets: Sequence[Target],
        record: Recorder,
        *,
        delay: float,
        wildcard: bool | None,
        sleep: Sleep,
    ) -> None:
        self._client = client
        self._targets = targets
        self._record = record
        self._delay = delay
        self._wildcard = wildcard
        self._sleep = sleep
        self._origin = targets[0].origin
        self._site = registrable_domain(targets[0].host)
        self._robots = Robots("", AGENT)

    async def run(self) -> None:
        """Make the requests, each followed by a pause."""
        try:
            await self._read_robots()
        except ForbiddenAddress:
            self._record_all(Outcome.NOT_PROBED)
            return
        except NoResponse as error:  # without a connection none of the endpoints has one either
            self._record_all(Outcome.BLOCKED if error.is_connected else Outcome.UNREACHABLE)
            await self._pause()
            return
        if self._wildcard is None and await self._find_wildcard():
            await self._pause()
        await self._visit_targets()

    async def _pause(self) -> None:
        await self._sleep(self._delay)

    async def _read_robots(self) -> None:
        """Read robots.txt, whose redirects are followed within the site.

        Raises NoResponse and ForbiddenAddress of the origin itself.
        """
        url = f"{self._origin}/robots.txt"
        for hop in range(1 + MAX_ROBOTS_REDIRECTS):
            if not url:
                return
            try:
                response = await self._client.request("GET", url, read=HTTPStatus.OK)
            except (NoResponse, ForbiddenAddress):
                if not hop:
                    raise
                self._obey(_disallowed())
                url = ""
            else:
                self._obey(_rules(response))
                url = self._redirect(url, response)
            await self._pause()

    def _redirect(self, url: str, response: Response) -> str:
        """Return the target of a redirect within the site, or an empty string."""
        if response.status not in REDIRECTS:
            return ""
        try:
            target = httpx.URL(url).join(response.headers.get("location", ""))
        except (httpx.InvalidURL, UnicodeError):
            return ""
        is_same_site = registrable_domain(target.raw_host.decode()) == self._site
        return str(target) if is_same_site and target.scheme in DEFAULT_PORTS else ""

    def _obey(self, robots: Robots) -> None:
        """Use the rules of robots.txt, and its delay between requests unless that is too long."""
        self._robots = _disallowed() if robots.delay > MAX_DELAY else robots
        self._delay = max(self._delay, self._robots.delay)

    async def _find_wildcard(self) -> bool:
        """Request a path that nobody lists; returns False where no endpoint may be requested."""
        path = f"/{AGENT}-{secrets.token_hex(8)}"
        allow = self._robots.allow
        if not allow(path) or not any(allow(target.rest) for target in self._targets):
            return False
        try:
            response = await self._client.request("GET", self._origin + path)
        except (NoResponse, ForbiddenAddress):
            pass  # the endpoints may answer all the same
        else:
            self._wildcard = response.status == HTTPStatus.PAYMENT_REQUIRED
        return True

    async def _visit_targets(self) -> None:
        """Request each endpoint, until the host asks to wait or has stopped answering."""
        silent = 0
        for target in self._targets:
            if not self._robots.allow(target.rest):
                self._record(observe(target, Outcome.BLOCKED))
                continue
            try:
                observation = await self._visit(target)
            except ForbiddenAddress:  # since robots.txt was read
                self._record(observe(target, Outcome.NOT_PROBED))
                continue
            self._record(observation)
            await self._pause()
            silent = silent + 1 if observation.status is None else 0
            if silent == MAX_SILENT or observation.status == HTTPStatus.TOO_MANY_REQUESTS:
                return

    async def _visit(self, target: Target) -> Observation:
        try:
            response = await self._client.request(
                target.method,
                target.origin + target.rest,
                target.body,
                read=HTTPStatus.PAYMENT_REQUIRED,
            )
        except NoResponse:
            return observe(target, Outcome.UNREACHABLE, wildcard=self._wildcard)
        is_challenge = response.status == HTTPStatus.PAYMENT_REQUIRED
        body = response.body if response.is_whole else b""
        quotes = read_quotes(response.headers, body) if is_challenge else []
        return observe(
            target,
            _outcome(response.status, quotes),
            status=response.status,
            latency_ms=response.latency,
            quotes=quotes,
            wildcard=self._wildcard,
        )

    def _record_all(self, outcome: Outcome) -> None:
        for target in self._targets:
            self._record(observe(target, outcome))


def observe(endpoint: ObservedEndpoint, outcome: Outcome, **facts: Any) -> Observation:
    """Return an observation of an endpoint that is made now."""
    return Observation(
        url=endpoint.url,
        method=endpoint.method,
        observed_at=format_timestamp(datetime.now(UTC)),
        outcome=outcome,
        prober=AGENT,
        **facts,
    )


def _outcome(status: int, quotes: Sequence[Quote]) -> Outcome:
    """Return the outcome of a response; a redirect is an answer like others.

    A payment goes to the listed URL, so that the quote of another one would say nothing of it.
    """
    if quotes:
        return Outcome.QUOTED
    return Outcome.BLOCKED if status in REFUSED else Outcome.ANSWERED


def _rules(response: Response) -> Robots:
    """Return the rules of robots.txt: none where a client error says that there is no file."""
    status = response.status
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS:
        return _disallowed()
    if status != HTTPStatus.OK:
        return Robots("", AGENT)
    is_unreadable = not response.body and not response.is_whole
    return _disallowed() if is_unreadable else Robots.parse(response.body, AGENT)


def _disallowed() -> Robots:
    return Robots(DISALLOW_ALL, AGENT)
