"""Which observations of a log decide: the others say again what their neighbours say."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from indexer.probes.observation import Observation, ObservedState, state_of
from indexer.x402.members.dates import NEVER
from service.urls import find_url


class _Seen(NamedTuple):
    """An observation in a sequence: where it stands in time, its line, and what it says."""

    moment: int
    order: tuple[Any, ...]
    line: int
    meaning: object


Meaning = tuple[ObservedState, bytes]
Sequences = dict[str, list[_Seen]]


class Compaction:
    """Collects the lines of a log, and tells which of them decide.

    Verdicts depend on the newest observations, and on where runs of equal ones begin and end: so
    the first and the last line of each run stay. A run of one method of a URL may end within a run
    of another method, as a listing may have both: the next line of each method stays, too.

    now: in microseconds; later lines stay, as a build leaves them out until their time has come
    """

    def __init__(self, now: int) -> None:
        self._now = now
        self._urls: dict[str, Sequences] = defaultdict(lambda: defaultdict(list))
        self._hosts: Sequences = defaultdict(list)
        self._meanings: dict[Meaning, Meaning] = {}
        self._kept: set[int] = set()
        self._last: dict[tuple[str, str], int] = {}
        self.lines = 0

    def add(self, observation: Observation) -> None:
        """Add the next line."""
        line, moment = self.lines, observation.moment
        self.lines += 1
        self._last[observation.url, observation.method] = line
        url = find_url(observation.url)
        if url is None or moment == NEVER or moment > self._now:
            self._kept.add(line)
            return
        state, latency = state_of(observation), observation.latency_ms
        status = -1 if observation.status is None else observation.status
        order = state, observation.outcome.value, status, -1 if latency is None else latency
        quotes = msgspec.json.encode(observation.quotes)
        meaning = state, quotes if state is ObservedState.QUOTED else b""
        meaning = self._meanings.setdefault(meaning, meaning)
        method = observation.method.strip().upper()
        self._urls[url.identity][method].append(_Seen(moment, order, line, meaning))
        if observation.wildcard is not None:
            seen = _Seen(moment, (observation.wildcard,), line, observation.wildcard)
            self._hosts[url.domain].append(seen)

    def deciding(self) -> set[int]:
        """Return the numbers of the lines that decide, from 0."""
        kept = self._kept.union(self._last.values())  # the next probe continues from the last ones
        for sequences in self._urls.values():
            kept.update(_deciding(sequences.values()))
        for sequence in self._hosts.values():
            kept.update(_deciding([sequence]))
        return kept


def _deciding(sequences: Iterable[list[_Seen]]) -> Iterator[int]:
    ordered = [sorted(each) for each in sequences]
    ends = [seen for sequence in ordered for seen in _ends(sequence)]
    yield from (seen.line for seen in ends)
    moments = sorted(seen.moment for seen in ends)
    for sequence in ordered:
        for before, seen in pairwise(sequence):
            if bisect_left(moments, before.moment) < bisect_left(moments, seen.moment):
                yield seen.line


def _ends(sequence: list[_Seen]) -> Iterator[_Seen]:
    """Yield the first and the last of each run."""
    yield sequence[0]
    for before, seen in pairwise(sequence):
        if before.meaning != seen.meaning:
            yield before
            yield seen
    yield sequence[-1]
