"""The order of requests: few sites at a time, with pauses between the requests to each."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import cast

import httpx
import pytest

from indexer.probes.observation import Observation, Outcome
from indexer.probing.prober import MAX_SITES, visit_all
from indexer.probing.targets import Site, Target, group_by_site
from indexer.probing.visits import OriginVisit, ProbeClient, Response

DELAY = 2.0


class Server:
    """Answers after other tasks have run, and counts the requests that are under way."""

    def __init__(self) -> None:
        self.under_way: set[str] = set()
        self.most = 0
        self.events: dict[str, list[str]] = defaultdict(list)

    async def request(self, method: str, url: str, *_: object, **__: object) -> Response:
        """Answer a request with 404."""
        site = httpx.URL(url).host.removeprefix("www.")
        assert site not in self.under_way
        self.under_way.add(site)
        self.most = max(self.most, len(self.under_way))
        self.events[site].append(f"{method} {httpx.URL(url).path[:9]}")
        for _step in range(3):
            await asyncio.sleep(0)
        self.under_way.remove(site)
        return Response(404, httpx.Headers(), 1)


def targets(sites: int) -> list[Target]:
    origins = [f"https://{name}s{n}.example" for n in range(sites) for name in ("", "www.")]
    return [
        Target(f"{origin}/{path}", "GET", origin[8:], origin, f"/{path}")
        for origin in origins
        for path in range(2)
    ]


def test_requests_of_a_site_are_apart_and_few_sites_are_visited_at_a_time() -> None:
    server, seen = Server(), list[Observation]()

    async def visit(site: Site) -> None:
        name = site[0][0].host.removeprefix("www.")

        async def sleep(seconds: float) -> None:
            server.events[name].append(f"pause {seconds}")
            await asyncio.sleep(0)

        for own in site:
            client = cast("ProbeClient", server)
            run = OriginVisit(client, own, seen.append, DELAY, sleep=sleep)
            await run.run()

    asyncio.run(visit_all(group_by_site(targets(30)), visit))
    assert server.most == MAX_SITES
    assert len(seen) == 120
    assert {each.outcome for each in seen} == {Outcome.ANSWERED}
    for events in server.events.values():
        assert len(events) == 2 * 2 * 4  # of each origin robots.txt, a path that nobody lists, two
        assert events[1::2] == [f"pause {DELAY}"] * 8


def test_the_error_of_one_visit_ends_all() -> None:
    async def visit(site: Site) -> None:
        await asyncio.sleep(0)
        if site[0][0].host.endswith("s1.example"):
            raise OSError("the disk is full")
        await asyncio.Event().wait()

    with pytest.raises(OSError, match="the disk is full"):
        asyncio.run(visit_all(group_by_site(targets(3)), visit))


def test_paths_that_are_no_urls_of_their_own_are_judged_as_paths() -> None:
    class Robots(Server):
        async def request(self, method: str, url: str, *_: object, **__: object) -> Response:
            rules = b"User-agent: *\nDisallow: //private"
            body = rules if f"{method} {url}" == f"GET {origin}/robots.txt" else b""
            return Response(200, httpx.Headers(), 1, body)

    seen, origin = list[Observation](), "https://s.example"
    paths = ["//[abc", "//private/x", "/public"]
    own = [Target(origin + path, "GET", "s.example", origin, path) for path in paths]

    async def sleep(_: float) -> None: ...

    asyncio.run(OriginVisit(cast("ProbeClient", Robots()), own, seen.append, 0, sleep=sleep).run())
    outcomes = {each.url.removeprefix(origin): each.outcome for each in seen}
    assert outcomes == {
        "//[abc": Outcome.ANSWERED,
        "//private/x": Outcome.BLOCKED,
        "/public": Outcome.ANSWERED,
    }
