from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from indexer.errors import SourceError
from indexer.intake.findings import Findings
from indexer.probes.verdicts import ALIVE, DEAD, UNDECIDED, ProbeVerdicts
from indexer.untrusted import since_epoch
from service.schema.listings import Fate
from service.schema.probes import ProbeFacts
from service.schema.values import format_timestamp
from tests.indexer.probes.probing import (
    ENTRY,
    NOW,
    QUOTE,
    URL,
    Line,
    ago,
    quoted,
    read,
    seen,
    source,
)

DAYS = 14
MAX_AGE = timedelta(days=7)


def facts(folder: Path, *lines: Line) -> ProbeFacts:
    return read([source(folder / "p", lines)]).facts[0]


def alive(folder: Path, *lines: Line) -> int:
    return read([source(folder / "p", lines)]).alive(0)


def dead(**age: float) -> dict[str, Any]:
    return seen("unreachable", ago(**age))


def test_an_endpoint_is_alive_for_a_week_after_it_quoted_a_price(tmp_path: Path) -> None:
    assert alive(tmp_path, quoted(ago(days=7))) == ALIVE
    assert alive(tmp_path, quoted(ago(days=7, seconds=1))) == UNDECIDED


def test_verdicts_hold_until_the_first_endpoint_is_no_longer_alive(tmp_path: Path) -> None:
    for lines, expected in (
        ([quoted(ago(days=1)), quoted(ago(days=3))], since_epoch(NOW + timedelta(days=6))),
        ([quoted(ago(days=8))], None),
        ([quoted(ago(days=4)), dead(days=2), dead(days=1)], None),
    ):
        probed = read([source(tmp_path / "p", lines)])
        assert probed.holds_until == expected
    liar = source(tmp_path / "p", [quoted(ago(days=1))], trust=0)
    assert read([liar]).holds_until is None


@pytest.mark.parametrize(
    "failure",
    [
        ("unreachable", None),
        ("answered", 404),
        ("answered", 410),
        ("answered", 500),
        ("answered", 503),
    ],
)
def test_failures_on_two_days_are_needed_for_a_dead_endpoint(
    failure: tuple[str, int | None], tmp_path: Path
) -> None:
    outcome, status = failure
    lines = [seen(outcome, ago(hours=hours), status=status) for hours in (1, 11, 13)]
    assert alive(tmp_path, *lines[:2]) == UNDECIDED
    assert alive(tmp_path, *lines) == DEAD
    assert facts(tmp_path, *lines).since == "2026-05-19T23:00:00.000Z"


@pytest.mark.parametrize("latency", [3_000_000_000, 12.5])
def test_a_value_of_another_type_than_most_lines_have_is_kept(
    tmp_path: Path, latency: float
) -> None:
    lines = [seen("answered", ago(hours=1), status=404, latency_ms=3)] * 5_000
    lines[7] = seen("answered", ago(minutes=1), status=404, latency_ms=latency)
    probe = facts(tmp_path, *lines).probe
    assert probe is not UNSET
    assert probe.latency_ms == latency


@pytest.mark.parametrize("latency", [b"1" + b"0" * 400, b"1e300", b"9007199254740992"])
def test_a_latency_that_no_answer_has_room_for_is_malformed(latency: bytes, tmp_path: Path) -> None:
    good = seen("answered", ago(hours=1), latency_ms=2**53 - 1)
    bad = msgspec.json.encode(seen("answered", ago(minutes=1), latency_ms=msgspec.Raw(latency)))
    findings = Findings(None)
    (probed,) = read([source(tmp_path / "p", [bad, good])], findings=findings).facts.values()
    assert probed.probe is not UNSET
    assert probed.probe.latency_ms == 2**53 - 1
    (fault,) = findings.examples(findings.tallies[0], Fate.REJECTED)
    assert str(fault).startswith("p:1: $.latency_ms: ")


def test_undated_and_future_lines_count_as_none(tmp_path: Path) -> None:
    soon = (NOW + timedelta(minutes=59)).isoformat()
    late = (NOW + timedelta(minutes=61)).isoformat()
    findings = Findings(None)
    lines = [quoted(when) for when in (None, "yesterday", late, -1, 10**17)]
    probed = read([source(tmp_path / "p", lines)], findings=findings)
    assert probed.facts == {}
    assert findings.tallies[0].left_out == {
        "undated observations": 4,
        "observations in the future": 1,
    }
    assert alive(tmp_path, quoted(soon)) == ALIVE


def test_a_time_with_a_fraction_is_unix_time(tmp_path: Path) -> None:
    found = facts(tmp_path, quoted(NOW.timestamp() - 0.5))
    assert found.last_seen == "2026-05-20T11:59:59.500Z"


def test_lines_that_are_no_observations_are_counted_with_their_place(tmp_path: Path) -> None:
    findings = Findings(None)
    lines: list[Any] = [
        quoted(ago(days=1)) | {"outcome": "fine"},
        b"{",
        quoted(ago(days=1)) | {"url": "no url"},
        quoted(ago(days=1)) | {"url": "https://other.example/"},
        quoted(ago(days=1)) | {"method": "POST"},
    ]
    read([source(tmp_path / "p", lines)], findings=findings)
    (tally,) = findings.tallies
    assert (tally.records, tally.published, tally.malformed) == (5, 0, 3)
    assert tally.left_out == {"observations of URLs that are not listed": 2}
    first, second, third = map(str, findings.examples(tally, Fate.REJECTED))
    assert first == "p:1: $.outcome: Invalid enum value 'fine'"
    assert second.startswith("p:2: $: ")
    assert third.startswith("p:3: $.url: ")


def test_a_listing_without_a_method_has_the_lines_of_any(tmp_path: Path) -> None:
    lines = [quoted(ago(days=1)) | {"method": "purge", "url": "https://WEATHER.example:443/v1/now"}]
    inputs = [source(tmp_path / "p", lines)]
    for method, expected in (("", ALIVE), ("GET, PURGE", ALIVE), ("GET", UNDECIDED)):
        assert read(inputs, listed=[(URL, method, [ENTRY])]).alive(0) == expected


def test_untrusted_probers_decide_nothing_and_are_noted(tmp_path: Path) -> None:
    findings = Findings(None)
    trusted = source(tmp_path / "t", [dead(days=2), dead(days=3)])
    lies = [quoted(ago(hours=hours), amount="7") | {"wildcard": True} for hours in (1, 30)]
    liar = source(tmp_path / "liar", lies, trust=0)
    alone = read([trusted]).facts[0]
    assert read([liar, trusted], findings=findings).facts[0] == alone
    assert [tally.source for tally in findings.tallies] == ["t"]
    (note,) = findings.notes
    assert note.startswith("liar: observations of a source without trust decide nothing")


def test_a_source_that_cannot_be_read_ends_the_build(tmp_path: Path) -> None:
    absent = source(tmp_path / "absent", [])
    (tmp_path / "absent").unlink()
    with pytest.raises(SourceError, match="there is no such file"):
        read([absent])


moments = st.integers(0, DAYS * 8).map(lambda steps: NOW - timedelta(hours=3 * steps))
answers = st.sampled_from(
    [
        ("quoted", 402, QUOTE),
        ("quoted", 402, QUOTE | {"amount": "9"}),
        ("quoted", 402, None),
        ("answered", 200, None),
        ("answered", 404, None),
        ("answered", 405, None),
        ("answered", 500, None),
        ("unreachable", None, None),
        ("blocked", 403, None),
        ("not_probed", None, None),
    ]
)
observations = st.tuples(moments, answers, st.sampled_from([True, False, None]), st.booleans())


@given(lines=st.lists(observations, max_size=12), data=st.data())
def test_verdicts_are_those_of_a_slow_reference_in_any_order(
    lines: list[tuple[datetime, tuple[str, int | None, Any], bool | None, bool]],
    data: st.DataObject,
) -> None:
    trusted = [line for line in lines if line[3]]
    expected = reference(trusted)
    shuffled = data.draw(st.permutations(lines))
    cut = data.draw(st.integers(0, len(lines)))
    with TemporaryDirectory() as name:
        folder = Path(name)
        inputs = [
            source(folder / f"{number} {trust}", encoded(part, trusted=trust), "p", trust=trust)
            for number, part in enumerate((shuffled[:cut], shuffled[cut:]))
            for trust in (True, False)
        ]
        assert verdicts(read(inputs)) == expected
        assert verdicts(read(inputs[::-1])) == expected


def encoded(lines: list[Any], *, trusted: bool) -> list[Line]:
    return [
        seen(outcome, at.isoformat(), status=status, quote=quote, wildcard=wildcard)
        for at, (outcome, status, quote), wildcard, is_trusted in lines
        if is_trusted == trusted
    ]


def verdicts(probed: ProbeVerdicts) -> tuple[int, object, object, object]:
    found = probed.facts.get(0, ProbeFacts())
    since = UNSET if found.drift is UNSET else found.drift.since
    return probed.alive(0), found.since, since, found.wildcard


def reference(lines: list[Any]) -> tuple[int, object, object, object]:
    """Return the verdicts as the documents state them, from lists of all lines."""
    best = {"quoted": 3, "answered": 2, "failed": 1}
    kinds = [(at, kind_of(outcome, status)) for at, (outcome, status, _), *_ in lines]
    informative = sorted((each for each in kinds if each[1]), key=lambda e: (e[0], best[e[1]]))
    alive, since = UNDECIDED, cast("object", UNSET)
    if informative and informative[-1][1] == "quoted":
        alive = ALIVE if informative[-1][0] >= NOW - MAX_AGE else UNDECIDED
    failures = current_run(informative, "failed", ("answered", "quoted"))
    if failures and failures[0].date() != failures[-1].date():
        alive, since = DEAD, format_timestamp(failures[0])
    prices = [
        (at, {None: "unknown", "1000": "agreed"}.get(quote and quote["amount"], "drifted"))
        for at, (outcome, _, quote), *_ in lines
        if outcome == "quoted"
    ]
    rank = {"drifted": 0, "unknown": 1, "agreed": 2}
    drifted: object = UNSET
    if prices and max(prices, key=lambda e: (e[0], rank[e[1]]))[1] == "drifted":
        drifted = format_timestamp(current_run(prices, "drifted", ("agreed",))[0])
    wild = current_run([(at, w) for at, _, w, _ in lines], True, (False,))
    is_wild = any(one.date() != other.date() for one, other in pairwise(wild))
    return alive, since, drifted, is_wild or UNSET if lines else UNSET


def current_run(
    lines: list[tuple[datetime, Any]], member: Any, ends: tuple[Any, ...]
) -> list[datetime]:
    """Return the moments of members after the last line that ends a run."""
    after = max(
        (at for at, kind in lines if kind in ends), default=datetime.min.replace(tzinfo=UTC)
    )
    return sorted(at for at, kind in lines if kind == member and at > after)


def kind_of(outcome: str, status: int | None) -> str:
    if outcome == "unreachable" or (outcome == "answered" and status in (404, 500)):
        return "failed"
    if outcome == "answered":
        return "" if status == 405 else "answered"
    return outcome if outcome == "quoted" else ""
