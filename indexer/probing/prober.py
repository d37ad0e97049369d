"""The run of a probe: finds the endpoints that are due, and writes observations of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from datetime import UTC, datetime
from time import monotonic

from msgspec import Struct

from indexer.errors import IndexerError
from indexer.probes.observation import Observation, Outcome
from indexer.probing.log import ObservationLog
from indexer.probing.options import ProbeOptions
from indexer.probing.targets import Site, find_targets, group_by_site
from indexer.probing.visits import OriginVisit, ProbeClient, observe
from indexer.progress import Progress
from indexer.untrusted import NEVER, SECOND, since_epoch
from service.snapshot.snapshot import open_snapshot

MAX_SITES = 8
"""Sites that are visited at a time; the client has no more than 10 connections."""


class ProbeReport(Struct, frozen=True):
    """The observations of a run by outcome, and the endpoints without one.

    recent: observed by an earlier run, less than `every` ago
    postponed: left for the next run, as their host asks to wait, has stopped answering, or took all
        of its time
    """

    outcomes: Counter[Outcome]
    hosts: int
    recent: int
    postponed: int


def probe(options: ProbeOptions, progress: Progress) -> ProbeReport:
    """Visit the listed endpoints of the published snapshot, and append what they answer to a file.

    In each host endpoints that were never observed come first, then the oldest observations.
    """
    endpoints = [*find_targets(open_snapshot(options.artifacts), post=options.post)]
    outcomes: Counter[Outcome] = Counter()
    with ObservationLog.open(options.out) as log:
        now = since_epoch(datetime.now(UTC))
        recent = range(now - options.every * SECOND, now)
        moments = {each: log.earlier.get((each.url, each.method), NEVER) for each in endpoints}
        due = sorted(
            (each for each in endpoints if moments[each] not in recent), key=moments.__getitem__
        )
        sites = group_by_site(each for each in due if each.origin)
        client = ProbeClient(options)
        with progress.stage("probing", len(due)) as stage:

            def record(observation: Observation) -> None:
                log.append(observation)
                outcomes[observation.outcome] += 1
                stage.advance(1)

            async def visit(site: Site) -> None:
                end = monotonic() + options.site_seconds
                for targets in site:
                    await OriginVisit(client, targets, record, options.interval, end).run()

            async def run() -> None:
                async with aclosing(client):
                    await visit_all(sites, visit)

            for each in due:
                if not each.origin:
                    record(observe(each, Outcome.NOT_PROBED))
            asyncio.run(run())
        if outcomes[Outcome.UNREACHABLE] and not client.has_connected:
            # The prober itself has no network: the whole catalogue would look dead.
            log.undo()
            raise IndexerError(
                f"none of the hosts of {outcomes[Outcome.UNREACHABLE]:,} endpoints can be reached, "
                "so that nothing was written; check the network of this machine"
            )
    return ProbeReport(
        outcomes=outcomes,
        hosts=sum(map(len, sites)),
        recent=len(endpoints) - len(due),
        postponed=len(due) - outcomes.total(),
    )


async def visit_all(sites: Iterable[Site], visit: Callable[[Site], Awaitable[None]]) -> None:
    """Visit sites in order, MAX_SITES at a time; raises the first error of a visit."""
    room = asyncio.Semaphore(MAX_SITES)

    async def visit_one(site: Site) -> None:
        async with room:
            await visit(site)

    try:
        async with asyncio.TaskGroup() as group:
            for site in sites:
                group.create_task(visit_one(site))
    except* (OSError, IndexerError) as errors:
        raise errors.exceptions[0] from None
