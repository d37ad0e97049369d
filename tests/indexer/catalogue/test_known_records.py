"""Known records: the same results as validating again, whatever was read before."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from indexer.build import build_snapshot
from indexer.catalogue.known_records import KnownRecords, Stored
from indexer.catalogue.normaliser import RecordNormaliser, Result
from indexer.catalogue_file import name_source
from indexer.errors import IndexerError, InvalidRecord
from indexer.intake.records import SourceRecord
from indexer.options import BuildOptions, RankingOptions
from indexer.processes.pool import Pool
from indexer.segments.reuse import REUSE
from indexer.sources.fact_store import LAYOUT, FactsDamaged, open_facts
from indexer.x402.readings import ReadResource
from service.snapshot.manifest import read_manifest
from service.storage.container import Arrays, open_arrays, write_arrays
from tests.support.artifacts import current, folder, listed, overlays, reported
from tests.support.running import Build, endpoint, examples, payment, service
from tests.support.sources.x402 import resource
from tests.support.workers import kill_itself

PROGRAM = "program"
WORKERS = 2
PLENTY = 2**40
"""Bytes of memory that do not limit the number of workers."""
WORDS = RankingOptions(is_semantic=False)

Outcome = tuple[str, Any]

records = st.builds(
    service,
    st.sampled_from(["a", "b", "c", "d", None]),
    name=st.sampled_from(["One", "Ünï ☃", "x" * 50]),
    domain=st.sampled_from(["one.example", "two.example"]),
    enriched=st.booleans(),
    endpoints=st.lists(
        st.builds(endpoint, st.sampled_from(["0.01", "2", ""])), min_size=1, max_size=2
    ),
)
lines = st.one_of(
    st.builds(
        lambda record, separators: json.dumps(record, separators=separators).encode(),
        records,
        st.sampled_from([(",", ":"), (", ", ": ")]),
    ),
    st.sampled_from(
        [
            b"{",
            b"[]",
            b'{"id": "a"}',
            b'{"name": "no id", "description": "", "endpoints": []}',
            b'{"id":"e","name":"\xff","description":"","endpoints":[]}',
            b'{"id":"n","name":"n","description":"","endpoints":[],"priceSummary": null}',
            json.dumps(resource("https://api.one.example/v1")).encode(),
        ]
    ),
)
histories = st.lists(st.lists(lines, max_size=12), min_size=1, max_size=4)


class Normalisation(NamedTuple):
    """The place and the outcome of each record, and how many were known."""

    outcomes: list[tuple[str, Outcome]]
    reused: int


def open_known(folder: Path) -> KnownRecords:
    return KnownRecords(open_facts(folder / "facts", PROGRAM))


def write_known(known: KnownRecords, folder: Path) -> None:
    """Write a new file: that which is mapped stays."""
    known.facts.write(folder / "new", PROGRAM)
    (folder / "new.arrays").replace(folder / "facts.arrays")


def normalise(
    texts: Sequence[bytes], known: KnownRecords, workers: int = 1
) -> list[tuple[str, Outcome]]:
    """Return the place and the outcome of each record."""
    return run(texts, known, workers).outcomes


def run(texts: Sequence[bytes], known: KnownRecords, workers: int = 1) -> Normalisation:
    source = [SourceRecord(f"line {number}", text) for number, text in enumerate(texts, 1)]
    source.append(SourceRecord("last line", b"", InvalidRecord("$", "longer than a record")))
    with Pool(workers, PLENTY) as pool:
        normaliser = RecordNormaliser(known, pool)
        outcomes = [
            (record.position, outcome(known, record, result))
            for record, result in normaliser.normalise(source)
        ]
        return Normalisation(outcomes, normaliser.reused)


def outcome(known: KnownRecords, record: SourceRecord, result: Result) -> Outcome:
    assert not isinstance(result, Stored)  # no texts are kept
    if isinstance(result, ReadResource):
        return "valid", known.facts.read(result.number)
    try:
        return "valid", result or known.normalise(record)
    except InvalidRecord as fault:
        return fault.path, fault.reason


def valid(outcomes: list[tuple[str, Outcome]]) -> int:
    return sum(kind == "valid" for _, (kind, _) in outcomes)


def test_faults_without_a_text_are_not_read_all_at_once() -> None:
    fault = InvalidRecord("$", "Expected `object`")
    source = (SourceRecord(str(number), b"", fault) for number in range(50_000))
    with Pool(1, PLENTY) as pool:
        next(RecordNormaliser(KnownRecords(), pool).normalise(source))
    assert int(next(source).position) < 10_000


@given(histories)
def test_known_records_have_the_results_of_new_ones(
    tmp_path_factory: pytest.TempPathFactory, history: list[list[bytes]]
) -> None:
    kept = tmp_path_factory.mktemp("kept")
    known, before = KnownRecords(), set[bytes]()
    for texts in history:
        anew = normalise(texts, KnownRecords())
        again = run(texts, known)
        assert again.outcomes == anew
        outcomes = [result for _, (result, _) in anew[:-1]]
        is_valid = {text for text, result in zip(texts, outcomes, strict=True) if result == "valid"}
        assert again.reused == sum(text in before & is_valid for text in texts)
        write_known(known, kept)
        known, before = open_known(kept), is_valid


def new_records(count: int) -> list[bytes]:
    return [json.dumps(service(f"s{number}")).encode() for number in range(count)]


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send every few records to workers."""
    monkeypatch.setattr("indexer.catalogue.normaliser.BATCH", 500)
    monkeypatch.setattr("indexer.catalogue.normaliser.WORKERS_FROM", 1000)


@pytest.mark.usefixtures("small_batches")
def test_workers_return_the_results_of_one_process(tmp_path: Path) -> None:
    texts = new_records(50)
    texts[20:20] = [b"{", json.dumps(resource("https://api.one.example/v1")).encode(), texts[3]]
    alone, shared = KnownRecords(), KnownRecords()
    outcomes = normalise(texts, alone)
    assert normalise(texts, shared, WORKERS) == outcomes
    assert valid(outcomes) == len(texts) - 1
    for known in (alone, shared):
        write_known(known, tmp_path)
        again = run(texts, open_known(tmp_path), WORKERS)
        assert again == Normalisation(outcomes, len(texts) - 1)


@pytest.mark.usefixtures("small_batches")
def test_a_killed_worker_ends_the_reading_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.catalogue.normaliser.WORKERS_FROM", 0)
    monkeypatch.setattr("indexer.catalogue.normaliser.normalise_texts", kill_itself)
    with pytest.raises(IndexerError, match=r"\(Killed\); is there enough memory"):
        normalise(new_records(50), KnownRecords(), WORKERS)


def test_known_records_are_written_once_and_unused_ones_are_dropped(tmp_path: Path) -> None:
    known = KnownRecords()
    normalise([*new_records(3), *new_records(3)], known)
    write_known(known, tmp_path)
    size = (tmp_path / "facts.arrays").stat().st_size
    known = open_known(tmp_path)
    normalise(new_records(3)[:1], known)
    write_known(known, tmp_path)
    assert (tmp_path / "facts.arrays").stat().st_size < size
    known = open_known(tmp_path)
    assert run(new_records(3), known).reused == 1


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def flip_a_fact(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[content.index(b"One")] ^= 1
    path.write_bytes(content)


def of_another_program(path: Path) -> None:
    rewrite(path, lambda arrays: arrays["program"] + 1, "program")


def rewrite(path: Path, change: Callable[[Arrays], Any], name: str) -> None:
    arrays = open_arrays(path.with_suffix(""), LAYOUT)
    changed = {key: np.array(each) for key, each in arrays.items()}
    write_arrays(path.with_suffix(""), LAYOUT, changed | {name: change(changed)})


DAMAGES: list[Callable[[Path], None]] = [
    *(Path.unlink, cut_short, lambda path: path.write_bytes(b"")),
    of_another_program,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_or_foreign_facts_are_one_error(
    damage: Callable[[Path], None], tmp_path: Path
) -> None:
    known = KnownRecords()
    normalise(new_records(3), known)
    write_known(known, tmp_path)
    damage(tmp_path / "facts.arrays")
    with pytest.raises(FactsDamaged):
        open_known(tmp_path)


def test_calls_beyond_64_bits_are_kept(artifacts: Path, build: Build) -> None:
    use = {"l30DaysTotalCalls": str(2**63 - 1), "l30DaysUniquePayers": "1"}
    busy = service("busy", endpoints=[endpoint() | {"quality": use}] * 3)
    assert build([service("a"), busy]) == 0
    assert build([service("b"), busy]) == 0
    assert [each["id"] for each in listed(artifacts)] == ["busy", "b"]


def reused(capsys: pytest.CaptureFixture[str]) -> int:
    return int(reported(capsys)["reusedRecords"])


def test_a_build_validates_only_new_records(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    first = [service("a"), service("b"), service("c")]
    assert build(first, options=("--json",)) == 0
    assert reused(capsys) == 0
    second = [service("c"), service("b", name="Two"), service("a")]
    assert build(second, options=("--json",)) == 0
    assert reused(capsys) == 2
    assert build([*second, service("d")], options=("--from-scratch", "--json")) == 0
    assert reused(capsys) == 0
    assert build([*second, service("e")]) == 0
    assert "3 known records; 1 of 4 services indexed anew" in capsys.readouterr().out
    assert [each["name"] for each in listed(artifacts)] == ["One", "Two", "One", "One"]


@pytest.mark.parametrize("damage", [flip_a_fact, of_another_program, Path.unlink])
def test_a_build_ignores_damaged_or_foreign_facts(
    damage: Callable[[Path], None],
    artifacts: Path,
    build: Build,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert build([service("a")]) == 0
    left = json.loads((artifacts / REUSE / f"{current(artifacts)}.json").read_bytes())
    damage(artifacts / REUSE / f"{left['facts']}.arrays")
    capsys.readouterr()
    assert build([service("a"), service("b")], options=("--json",)) == 0
    assert reused(capsys) == 0
    assert len(listed(artifacts)) == 2


def test_records_amended_by_overlays_and_payments_are_known_too(
    tmp_path: Path, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    paid = service("a", endpoints=[endpoint(payTo="0xb")])
    options = overlays(tmp_path, {"b": {"name": "Overlaid"}})
    sources = [paid, service("b")]
    assert build(sources, payments=[payment()], options=options) == 0
    monkeypatch.setattr("indexer.catalogue.known_records.normalise", None)
    assert build([*sources, service("c")], payments=[payment()], options=options) == 0


@given(histories)
@settings(max_examples=examples(10))
def test_a_history_of_builds_publishes_what_builds_from_nothing_publish(
    tmp_path_factory: pytest.TempPathFactory, history: list[list[bytes]]
) -> None:
    base = tmp_path_factory.mktemp("history")
    for number, texts in enumerate(history):
        source = base / f"{number}.jsonl"
        source.write_bytes(b"\n".join([*new_records(1), *texts]))
        kept = publish(source, base / "kept")
        assert kept == publish(source, base / f"anew{number}")


def publish(source: Path, artifacts: Path) -> tuple[dict[str, str], Any]:
    """Build, and return the hashes of the files that are served, and the tallies."""
    options = BuildOptions(
        sources=(name_source(str(source)),),
        out=artifacts,
        max_rejects=Fraction(1),
        ranking=WORDS,
        downloads=False,
    )
    report = build_snapshot(options)
    files = read_manifest(folder(artifacts)).files
    served = {name: file.sha256 for name, file in files.items()}
    tallies = [structs.replace(each, read_at=None) for each in report.sources]
    return served, (tallies, report.findings, report.first_findings)
