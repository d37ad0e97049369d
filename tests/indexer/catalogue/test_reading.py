"""Reading: the same results in one process and in several, whatever was read before."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from itertools import count as count_up
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from indexer.build import build_snapshot
from indexer.catalogue.reading import Result, read_all
from indexer.catalogue.services import describe_group
from indexer.catalogue_file import name_source
from indexer.errors import IndexerError, InvalidRecord
from indexer.intake.lists import SourceRecord
from indexer.options import BuildOptions, Denial, Policy, RankingOptions
from indexer.processes.pool import Pool
from indexer.resources.x402 import read_resource
from service.snapshot.manifest import read_manifest
from tests.support.artifacts import folder
from tests.support.running import endpoint, examples, service
from tests.support.sources.x402 import resource
from tests.support.workers import kill_itself

NOW = datetime(2026, 6, 1, tzinfo=UTC)
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
    st.builds(
        lambda host, path, updated: json.dumps(
            resource(f"https://{host}.example/{path}", lastUpdated=updated)
        ).encode(),
        st.sampled_from(["one", "three", "denied"]),
        st.sampled_from(["v1", "v2", "v3"]),
        st.sampled_from(["2026-01-01T00:00:00Z", "2001-01-01T00:00:00Z", "2999-01-01T00:00:00Z"]),
    ),
)
WIDE, CHEAP = Policy(), Policy(max_price=Decimal(1))
policies = st.sampled_from(
    [
        Policy(),
        Policy(max_age=7300 * 24 * 3600),
        Policy(max_price=Decimal("0.001")),
        Policy(deny=(Denial(host="denied.example", reason="fraud"),)),
    ]
)
histories = st.lists(st.tuples(st.lists(lines, max_size=12), policies), min_size=1, max_size=4)


def read(texts: Sequence[bytes], workers: int = 1) -> list[tuple[str, Outcome]]:
    """Return the place and the outcome of each text."""
    source = [SourceRecord(f"line {number}", text) for number, text in enumerate(texts, 1)]
    source.append(SourceRecord("last line", b"", InvalidRecord("$", "longer than a record")))
    with Pool(workers, PLENTY) as pool:
        found = read_all(pool, source, None)
        return [(record.position, outcome(result)) for record, result in found]


def outcome(result: Result) -> Outcome:
    return (str(result), "") if isinstance(result, InvalidRecord) else ("valid", result)


def new_records(count: int) -> list[bytes]:
    return [json.dumps(service(f"s{number}")).encode() for number in range(count)]


def test_faults_without_a_text_are_not_read_all_at_once() -> None:
    fault = InvalidRecord("$", "Expected `object`")
    source = (SourceRecord(str(number), b"", fault) for number in range(50_000))
    with Pool(1, PLENTY) as pool:
        next(read_all(pool, source, None))
    assert int(next(source).position) < 10_000


def test_workers_return_the_results_of_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.catalogue.reading.BATCH", 500)
    texts = new_records(50)
    texts[20:20] = [b"{", json.dumps(resource("https://api.one.example/v1")).encode(), texts[3]]
    outcomes = read(texts)
    assert read(texts, WORKERS) == outcomes
    assert sum(kind == "valid" for _, (kind, _) in outcomes) == len(texts) - 1


def test_a_killed_worker_ends_the_reading_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.catalogue.reading.BATCH", 500)
    monkeypatch.setattr("indexer.catalogue.reading.read_texts", kill_itself)
    with pytest.raises(IndexerError, match="is there enough memory"):
        read(new_records(50), WORKERS)


@given(histories)
@settings(max_examples=examples(10))
def test_a_history_of_builds_publishes_what_builds_from_nothing_publish(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[list[bytes], Policy]]
) -> None:
    base = tmp_path_factory.mktemp("history")
    for number, (texts, policy) in enumerate(history):
        source = base / f"{number}.jsonl"
        source.write_bytes(b"\n".join([*new_records(1), *texts]))
        kept = publish(source, base / "kept", policy)
        assert kept == publish(source, base / f"anew{number}", policy)


def test_of_unchanged_texts_nothing_is_read_or_described_again_whatever_the_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: Counter[str] = Counter()

    def count(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any) -> Any:
            counts[name] += 1
            return function(*arguments)

        return counting

    reader, describer = count("read", read_resource), count("described", describe_group)
    monkeypatch.setattr("indexer.catalogue.reading.read_resource", reader)
    monkeypatch.setattr("indexer.catalogue.services.describe_group", describer)
    source, artifacts, numbers = tmp_path / "feed.jsonl", tmp_path / "artifacts", count_up()

    def read_again(
        description: str, policy: Policy, *, from_scratch: bool = False, **changes: str
    ) -> tuple[int, int]:
        feed = [resource(f"https://{host}.example/x") for host in ("a", "b", "c")]
        feed[0] |= {"description": description, **changes}
        blank = "\n" * next(numbers)  # so that no build repeats the last one
        source.write_text(blank + "\n".join(map(json.dumps, feed)))
        counts.clear()
        publish(source, artifacts, policy, from_scratch=from_scratch)
        return counts["read"], counts["described"]

    assert read_again("One", WIDE) == (3, 3)
    assert read_again("Two", WIDE) == (1, 1)
    assert read_again("Three", CHEAP) == (1, 1)
    assert read_again("Four", CHEAP) == (1, 1)
    assert read_again("Four", CHEAP, from_scratch=True) == (3, 3)
    assert read_again("Five", CHEAP, lastUpdated="2999-01-01T00:00:00Z") == (1, 1)
    assert read_again("Five", CHEAP, lastUpdated="2999-01-01T00:00:00Z") == (0, 0)


def publish(
    source: Path, artifacts: Path, policy: Policy, *, from_scratch: bool = False
) -> tuple[dict[str, str], Any]:
    """Build, and return the hashes of the files that are served, and the tallies."""
    options = BuildOptions(
        sources=(name_source(str(source)),),
        out=artifacts,
        max_rejects=Fraction(1),
        ranking=WORDS,
        downloads=False,
        whoosh=False,
        policy=policy,
        from_scratch=from_scratch,
    )
    report = build_snapshot(options)
    files = read_manifest(folder(artifacts)).files
    served = {name: file.sha256 for name, file in files.items()}
    tallies = [structs.replace(each, read_at=None) for each in report.sources]
    return served, (tallies, report.findings, report.first_findings)
