"""Liveness: the state of an endpoint by an observation, and runs of equal states."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from struct import Struct
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from indexer.probes.observation import Observation, Outcome
from indexer.x402.members.dates import SECOND

DAY = 24 * 3600 * SECOND
GONE = frozenset((404, 410))
REFUSED = frozenset((401, 403, 405, 429))
SERVER_ERROR = 500
CHUNK = 2**18  # rows

ROW = np.dtype(
    [
        ("target", "<i4"),
        ("host", "<i4"),
        ("moment", "<i8"),
        ("state", "<i1"),
        ("verdict", "<i1"),
        ("wildcard", "<i1"),
    ]
)
pack_row = Struct("<iiqbbb").pack  # of the values of a ROW
LATEST = np.iinfo(np.int64).max
NOT_SEEN = -1

ObservationRows = npt.NDArray[np.void]
Moments = npt.NDArray[np.int64]
Condition = Callable[[ObservationRows], npt.NDArray[Any]]


class ObservedState(IntEnum):
    """The state of an endpoint by one observation, the best last.

    SILENT: nothing, as the visitor was refused or did not ask
    FAILED: no response, 404, 410 or 5xx
    ANSWERED: another response
    QUOTED: 402 with a price
    """

    SILENT = 0
    FAILED = 1
    ANSWERED = 2
    QUOTED = 3


def state_of(observation: Observation) -> ObservedState:
    """Return the state of an endpoint by one observation."""
    match observation.outcome:
        case Outcome.QUOTED:
            return ObservedState.QUOTED
        case Outcome.UNREACHABLE:
            return ObservedState.FAILED
        case Outcome.ANSWERED:
            status = observation.status or 0
            if status in REFUSED:
                return ObservedState.SILENT
            is_failed = status in GONE or status >= SERVER_ERROR
            return ObservedState.FAILED if is_failed else ObservedState.ANSWERED
    return ObservedState.SILENT


class RunSpans(NamedTuple):
    """The last run of rows of one kind, by key; a row of the other kind ends a run.

    first, last: int64[keys], moments; `last` is NOT_SEEN without a run
    """

    first: Moments
    last: Moments

    @property
    def on_two_days(self) -> npt.NDArray[np.bool_]:
        """Which runs are on two UTC days at least."""
        is_seen = self.last != NOT_SEEN
        days: npt.NDArray[np.bool_] = is_seen & (self.first // DAY != self.last // DAY)
        return days


def find_runs(file: BinaryIO, key: str, keys: int, member: Condition, end: Condition) -> RunSpans:
    """Return the last run of members by key; a row that ends runs wins at the same moment."""
    ended = np.full(keys, NOT_SEEN)
    for rows in _chunks(file):
        ending = rows[end(rows)]
        np.maximum.at(ended, ending[key], ending["moment"])
    first, last = np.full(keys, LATEST), np.full(keys, NOT_SEEN)
    for rows in _chunks(file):
        members = rows[member(rows)]
        members = members[members["moment"] > ended[members[key]]]
        np.minimum.at(first, members[key], members["moment"])
        np.maximum.at(last, members[key], members["moment"])
    return RunSpans(first, last)


def _chunks(file: BinaryIO) -> Iterator[ObservationRows]:
    file.seek(0)
    while chunk := file.read(CHUNK * ROW.itemsize):
        yield np.frombuffer(chunk, ROW)
