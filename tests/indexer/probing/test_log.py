"""The file of observations: what it keeps of the past."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.errors import IndexerError
from indexer.probes.observation import decode_observation
from indexer.probes.verdicts import Probed
from indexer.probing.compaction import Compaction
from indexer.probing.log import ObservationLog
from indexer.x402.members.dates import since_epoch
from tests.indexer.probes.probing import ENTRY, NOW, QUOTE, URL, Line, quoted, read, source
from tests.support.running import examples

OTHER = "https://weather.example/v1/then"
LISTED = [
    (URL, "GET", [ENTRY]),
    (URL, "GET, POST", [ENTRY | {"amount": "2000"}]),
    (URL, "", [ENTRY]),
    (OTHER, "POST", [ENTRY]),
]
_outcomes: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"outcome": "quoted", "status": 402, "quotes": [QUOTE]},
        {"outcome": "quoted", "status": 402, "quotes": [QUOTE | {"amount": "2000"}]},
        {"outcome": "quoted", "status": 402, "quotes": []},
        {"outcome": "unreachable"},
        {"outcome": "answered", "status": 404},
        {"outcome": "answered", "status": 200},
        {"outcome": "blocked"},
    ]
)
_lines = st.builds(
    lambda url, method, hours, wildcard, outcome: (
        outcome
        | {
            "url": url,
            "method": method,
            "observed_at": (NOW - timedelta(hours=hours)).isoformat(),
            "wildcard": wildcard,
        }
    ),
    st.sampled_from([URL, URL.replace("weather", "WEATHER"), OTHER]),
    st.sampled_from(["GET", "POST"]),
    st.integers(1, 40).map(lambda steps: 6 * steps),
    st.sampled_from([None, True, False]),
    _outcomes,
)
_runs = st.tuples(_lines, st.integers(1, 9))
"""An observation, and how often it is repeated, 12 hours apart."""


def repeated(line: Line, times: int) -> list[Line]:
    """Return a line and the same one earlier and earlier."""
    moment = datetime.fromisoformat(line["observed_at"])
    return [
        {**line, "observed_at": (moment - number * timedelta(hours=12)).isoformat()}
        for number in range(times)
    ]


def write(path: Path, lines: Iterable[Line]) -> None:
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def verdicts(path: Path) -> list[Any]:
    """Return the facts of all endpoints by a file."""
    lines = path.read_bytes().splitlines()
    probed: Probed = read([source(path.with_name("own"), lines, "own")], path.parent, listed=LISTED)
    numbers = range(len(probed.targets))
    return [(probed.facts(number), probed.alive(number)) for number in numbers]


@settings(deadline=None, max_examples=examples(300))
@given(st.lists(_runs, min_size=2, max_size=6), st.lists(_lines, max_size=2))
def test_the_lines_that_decide_have_the_verdicts_of_all_lines(
    runs: list[tuple[Line, int]], later: list[Line]
) -> None:
    lines = [each for run in runs for each in repeated(*run)]
    later = [{**line, "observed_at": NOW.isoformat()} for line in later]
    with tempfile.TemporaryDirectory() as name:
        compaction = Compaction(since_epoch(NOW))
        for line in lines:
            compaction.add(decode_observation(msgspec.json.encode(line)))
        deciding = [lines[number] for number in sorted(compaction.deciding())]
        for more in ([], later):
            expected, own = Path(name, "expected"), Path(name, "own")
            write(expected, [*lines, *more])
            write(own, [*deciding, *more])
            assert verdicts(own) == verdicts(expected)


def test_a_log_grows_with_the_endpoints_and_not_with_the_years(tmp_path: Path) -> None:
    path, sizes = tmp_path / "probes.jsonl", []
    nights = count()
    for _ in range(4):
        for _ in range(365):
            moment = NOW - timedelta(days=2000 - next(nights))
            with path.open("ab") as file:
                for url in (URL, OTHER):
                    line = quoted(moment.isoformat()) | {"url": url, "wildcard": False}
                    file.write(msgspec.json.encode(line) + b"\n")
        with ObservationLog.open(path):
            sizes.append(len(path.read_bytes().splitlines()))
    assert sizes == [sizes[0]] * 4
    assert sizes[0] < 20


def test_a_log_that_is_replaced_stays_locked_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "probes.jsonl"
    line = {"url": URL, "outcome": "unreachable", "observed_at": NOW.isoformat()}
    write(path, repeated(line, 50))
    path.chmod(0o640)
    with (
        ObservationLog.open(path),
        pytest.raises(IndexerError, match="another probe is at work"),
        ObservationLog.open(path),
    ):
        pass
    assert path.stat().st_mode & 0o777 == 0o640
    assert [each.name for each in tmp_path.iterdir()] == ["probes.jsonl"]


def test_lines_that_no_build_counts_yet_stay_and_hide_no_other(tmp_path: Path) -> None:
    path = tmp_path / "probes.jsonl"
    ahead = quoted((datetime.now(UTC) + timedelta(days=1)).isoformat())
    undated = quoted("soon")
    newest = quoted(NOW.isoformat())
    write(path, [*repeated(newest, 50)[::-1], ahead, undated])
    with ObservationLog.open(path):
        lines = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    assert lines[-3:] == [newest, ahead, undated]
    assert len(lines) < 10
