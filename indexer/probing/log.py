"""The file of observations that a probe appends to, and continues from."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Self

from msgspec import Struct

from indexer.errors import IndexerError, InvalidRecord, Misuse
from indexer.probes.observation import Observation, decode_observation, encode_observation
from indexer.untrusted import NEVER, SECOND, since_epoch
from service.artifacts.durable import make_folder, replace_durably, sync

KEPT = 30 * 24 * 3600 * SECOND
"""Age of the observations that stay: verdicts need two days, and tell since when for so long."""
START = b'{"url":'
"""The beginning of each line that `append` writes."""


class Earlier(Struct, frozen=True):
    """The last observation of an endpoint: its time in microseconds, and `wildcard` of its host."""

    moment: int
    wildcard: bool | None


UNOBSERVED = Earlier(NEVER, None)


class ObservationLog:
    """An open file of observations.

    earlier: the last observation of each endpoint, by URL and method, when the file was opened
    """

    def __init__(self, file: BinaryIO, earlier: dict[tuple[str, str], Earlier]) -> None:
        self._file = file
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
        with _locked(path) as file:
            earlier = _read(path, file)
            is_compacted = _compact(path)
            if not is_compacted:
                yield cls(file, earlier)
        if is_compacted:
            with _locked(path) as file:
                yield cls(file, earlier)

    def append(self, observation: Observation) -> None:
        """Append a line, and flush it to the disk."""
        line = encode_observation(observation) + b"\n"
        start = self._file.seek(0, os.SEEK_END)
        if self._file.write(line) != len(line):  # a full disk takes a part
            self._file.truncate(start)
            raise OSError(None, "the disk is full", self._file.name)
        os.fsync(self._file.fileno())


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    busy = f"another probe is at work on {path}; try again when it ends"
    with path.open("a+b", buffering=0) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise IndexerError(busy) from error
        if not os.path.samestat(
            os.fstat(file.fileno()), path.stat()
        ):  # another probe has replaced it since
            raise IndexerError(busy)
        sync(path.parent)
        yield file


def _compact(path: Path) -> bool:
    """Replace a file by its lines of KEPT and the last of each endpoint, if these are few.

    Lines without a time, or of the future, stay.
    """
    oldest = since_epoch(datetime.now(UTC)) - KEPT
    last: dict[tuple[str, str], int] = {}
    recent, count = set(), 0
    with path.open("rb") as lines:
        for count, line in enumerate(lines, 1):
            observation = decode_observation(line)
            last[observation.url, observation.method] = count
            if observation.moment == NEVER or observation.moment >= oldest:
                recent.add(count)
    kept = recent.union(last.values())
    if 2 * len(kept) >= count:
        return False
    with path.open("rb") as lines:
        content = b"".join(line for number, line in enumerate(lines, 1) if number in kept)
    draft, mode = path.with_name(f".{path.name}.compacted"), path.stat().st_mode
    replace_durably(path, content, draft)
    path.chmod(mode)
    return True


def _read(path: Path, file: BinaryIO) -> dict[tuple[str, str], Earlier]:
    earlier: dict[tuple[str, str], Earlier] = {}
    whole = 0
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n") and line.startswith(START[: len(line)]):
                file.truncate(whole)
                break
            try:
                observation = decode_observation(line)
            except InvalidRecord as error:
                raise Misuse(
                    f"{path}: line {number:,} is no observation ({error}); "
                    "give the file of an earlier probe, or a new one"
                ) from error
            whole += len(line)
            key = observation.url, observation.method
            earlier[key] = Earlier(observation.moment, observation.wildcard)
    return earlier
