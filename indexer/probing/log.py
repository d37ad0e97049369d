"""The file of observations that a probe appends to, and continues from."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Self

from indexer.errors import IndexerError, InvalidRecord, Misuse
from indexer.probes.observation import Observation, decode_observation, encode_observation
from indexer.untrusted import NEVER, SECOND, since_epoch
from service.arrays.files import make_folder, replace_durably

KEPT = 30 * 24 * 3600 * SECOND
"""Age of the observations that stay: verdicts need two days, and tell since when for so long."""
START = b'{"url":'
"""The beginning of each line that `append` writes."""


class ObservationLog:
    """An open file of observations.

    earlier: when each endpoint was last observed, by URL and method, before the file was opened
    """

    def __init__(self, file: BinaryIO, earlier: dict[tuple[str, str], int]) -> None:
        self._file, self._start = file, file.seek(0, os.SEEK_END)
        self.earlier = earlier

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[Self]:
        """Read a file, make it where there is none, and keep others from appending to it.

        A line that a crash cut short is removed, and so are those older than KEPT but the last of
        each endpoint, where they are more than half. Raises Misuse for a file of something else,
        and IndexerError while another probe appends to it.
        """
        path = path.resolve()
        make_folder(path.parent)
        with path.with_name(f".{path.name}.lock").open("wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise IndexerError(
                    f"another probe is at work on {path}; try again when it ends"
                ) from error
            path.touch()
            earlier = _continue(path)
            with path.open("ab", buffering=0) as file:
                yield cls(file, earlier)

    def append(self, observation: Observation) -> None:
        """Append a line, and flush it to the disk."""
        line = encode_observation(observation) + b"\n"
        start = self._file.seek(0, os.SEEK_END)
        if self._file.write(line) != len(line):  # a full disk takes a part
            self._file.truncate(start)
            raise OSError(None, "the disk is full", self._file.name)
        os.fsync(self._file.fileno())

    def undo(self) -> None:
        """Remove all lines that were appended."""
        self._file.truncate(self._start)


def _continue(path: Path) -> dict[tuple[str, str], int]:
    """Return when each endpoint was last observed, and drop lines that are of no use.

    Lines without a time, or of the future, stay.
    """
    oldest = since_epoch(datetime.now(UTC)) - KEPT
    earlier: dict[tuple[str, str], int] = {}
    last: dict[tuple[str, str], int] = {}
    recent: set[int] = set()
    count = whole = 0
    with path.open("rb") as lines:
        for count, line in enumerate(lines, 1):
            if not line.endswith(b"\n") and line.startswith(START[: len(line)]):
                os.truncate(path, whole)
                break
            try:
                observation = decode_observation(line)
            except InvalidRecord as error:
                raise Misuse(
                    f"{path}: line {count:,} is no observation ({error}); "
                    "give the file of an earlier probe, or a new one"
                ) from error
            whole += len(line)
            endpoint, moment = (observation.url, observation.method), observation.moment
            earlier[endpoint], last[endpoint] = moment, count
            if moment == NEVER or moment >= oldest:
                recent.add(count)
    kept = recent.union(last.values())
    if 2 * len(kept) < count:
        with path.open("rb") as lines:
            content = b"".join(line for number, line in enumerate(lines, 1) if number in kept)
        draft, mode = path.with_name(f".{path.name}.compacted"), path.stat().st_mode
        replace_durably(path, content, draft)
        path.chmod(mode)
    return earlier
