"""The file of observations: what it keeps of the past."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Self

import msgspec
import pytest
from msgspec import UNSET

from indexer.errors import IndexerError
from indexer.probing.log import ObservationLog
from service.schema.probes import ProbeFacts
from tests.indexer.probes.probing import NOW, URL, Line, quoted, read, source

OTHER = "https://weather.example/v1/then"


class Clock(datetime):
    """A clock that stands at NOW."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        """Return NOW."""
        return cls.fromtimestamp(NOW.timestamp(), tz)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let logs take NOW for the present."""
    monkeypatch.setattr("indexer.probing.log.datetime", Clock)


def repeated(line: Line, times: int) -> list[Line]:
    """Return a line and the same one earlier and earlier."""
    moment = datetime.fromisoformat(line["observed_at"])
    return [
        {**line, "observed_at": (moment - number * timedelta(hours=12)).isoformat()}
        for number in range(times)
    ]


def write(path: Path, lines: Iterable[Line]) -> None:
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def facts(path: Path) -> ProbeFacts:
    lines = path.read_bytes().splitlines()
    return read([source(path.with_name("own"), lines, "own")]).facts[0]


def test_a_log_keeps_the_last_days_and_the_last_line_of_each_endpoint(tmp_path: Path) -> None:
    path = tmp_path / "probes.jsonl"
    nights = [(NOW - timedelta(days=days, hours=1)).isoformat() for days in reversed(range(90))]
    lines = [quoted(night, amount="7") | {"wildcard": True} for night in nights]
    gone = {"url": OTHER, "outcome": "unreachable", "observed_at": nights[0]}
    write(path, [*repeated(gone, 9)[::-1], *lines])
    before = facts(path)
    with ObservationLog.open(path):
        kept = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    assert kept == [gone, *lines[-30:]]
    after = facts(path)
    assert before.drift is not UNSET
    assert after.drift is not UNSET
    assert (after.wildcard, after.probe, after.drift.quoted) == (
        before.wildcard,
        before.probe,
        before.drift.quoted,
    )


def test_a_log_that_is_replaced_stays_locked_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "probes.jsonl"
    line = {"url": URL, "outcome": "unreachable", "observed_at": NOW.isoformat()}
    write(path, repeated(line, 150)[::-1])
    path.chmod(0o640)
    with (
        ObservationLog.open(path),
        pytest.raises(IndexerError, match="another probe is at work"),
        ObservationLog.open(path),
    ):
        pass
    assert path.stat().st_mode & 0o777 == 0o640
    assert {each.name for each in tmp_path.iterdir()} == {path.name, f".{path.name}.lock"}


def test_lines_that_no_build_counts_yet_stay_and_hide_no_other(tmp_path: Path) -> None:
    path = tmp_path / "probes.jsonl"
    ahead = quoted((NOW + timedelta(days=1)).isoformat())
    undated = quoted("soon")
    newest = quoted((NOW - timedelta(days=31)).isoformat())
    write(path, [*repeated(newest, 50)[::-1], ahead, undated, newest])
    with ObservationLog.open(path):
        lines = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    assert lines == [ahead, undated, newest]
