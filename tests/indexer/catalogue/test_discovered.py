"""Discovered services over several builds: known resources are judged anew, and not read anew."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from indexer.build import build_snapshot
from indexer.options import BuildOptions, Denial, Policy, SourceOptions, Stablecoin
from indexer.report import Report
from indexer.search_options import RankingOptions
from indexer.x402.grouping import group_resources
from service.snapshot.manifest import read_manifest
from tests.support.artifacts import folder, listed
from tests.support.running import Json, endpoint, examples, service, write_lines
from tests.support.sources.x402 import accept, resource, v1, v2

TOKEN = "0x" + "77" * 20
"""A token that is known where the policy names it."""
HOSTS = ("a.one.example", "a-one.example", "b.example")  # two of them share a plain id


class Step(NamedTuple):
    """The sources of a build and its policy, and the version of the program."""

    sources: dict[str, list[Json]]
    trusts: dict[str, int]
    policy: Policy
    version: int


def at(host: str, number: int, scheme: str, fields: Json, price: Json, kind: str) -> Json:
    url = f"{scheme}://{host}/{number}"
    shaped = {"v1": v1({"method": "GET"}), "v2": v2({"method": "POST"}), "": resource()}[kind]
    accepts = shaped["accepts"] if kind == "v1" else [accept(**price)]
    return shaped | {"resource": url, "accepts": accepts} | fields


dates = st.sampled_from([None, "2020-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "9999-01-01"])
resources = st.lists(
    st.builds(
        at,
        st.sampled_from(HOSTS),
        st.integers(0, 2),
        st.sampled_from(["https", "https", "http"]),
        st.fixed_dictionaries(
            {"description": st.sampled_from(["", "Rain", "Sun"]), "lastUpdated": dates},
            optional={
                "quality": st.builds(
                    lambda calls, moment: {"l30DaysTotalCalls": calls, "lastCalledAt": moment},
                    st.integers(0, 3),
                    dates,
                )
            },
        ),
        st.fixed_dictionaries(
            {"amount": st.sampled_from(["10000", "2000000", "0.01"])},
            optional={
                "asset": st.just(TOKEN),
                "payTo": st.sampled_from(["0xa", "0xb"]),
                "network": st.just("base-sepolia"),
            },
        ),
        st.sampled_from(["v1", "v2", ""]),
    ),
    max_size=8,
)
records = st.lists(
    st.builds(
        lambda host, path: service(
            None, domain=host, endpoints=[endpoint() | {"url": f"https://{host}/{path}"}]
        ),
        st.sampled_from(HOSTS),
        st.integers(0, 3),
    ),
    max_size=1,
)
policies = st.builds(
    Policy,
    max_price=st.sampled_from([Decimal(1), Decimal(10_000)]),
    allow_http=st.booleans(),
    endpoints_per_service=st.sampled_from([1, 1000]),
    max_age=st.sampled_from([None, 10**8]),
    deny=st.sampled_from(
        [
            (),
            (Denial(host="b.example", reason="x"),),
            (Denial(payee="0xb"), Denial(url="https://b.example/1")),
        ]
    ),
    stablecoins=st.sampled_from([(), (Stablecoin("base", TOKEN, "USDT", 6),)]),
)
steps = st.builds(
    Step,
    st.fixed_dictionaries({"one": resources, "other": resources, "records": records}),
    st.fixed_dictionaries({"one": st.just(0), "other": st.integers(0, 1), "records": st.just(0)}),
    policies,
    st.integers(1, 2),
)


@pytest.fixture(scope="module", autouse=True)
def program() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@given(st.lists(steps, min_size=2, max_size=4), st.data())
@settings(max_examples=examples(14), deadline=None)
def test_a_history_of_builds_serves_the_bytes_of_builds_that_know_nothing(
    program: pytest.MonkeyPatch, history: list[Step], data: st.DataObject
) -> None:
    with TemporaryDirectory() as name:
        before = history[0]
        for drawn in history:
            kept = data.draw(
                st.sampled_from([(), ("one",), ("one", "other"), tuple(drawn.sources)])
            )
            sources = drawn.sources | {each: before.sources[each] for each in kept}
            step = before = drawn._replace(sources=sources)
            version = partial(str, step.version)
            program.setattr("indexer.intake.fingerprint.hash_own_code", version)
            again = publish(Path(name) / "kept", step)
            anew = publish(Path(name) / "anew", step, from_scratch=True)
            assert again == anew


def publish(
    base: Path, step: Step, *, from_scratch: bool = False
) -> tuple[dict[str, str], list[Any]]:
    """Build a step; return the hashes of the files of the snapshot, and the tallies."""
    report = build(base, step, from_scratch=from_scratch)
    files = read_manifest(folder(base / "artifacts")).files
    served = {name: file.sha256 for name, file in files.items()}
    tallies = [structs.replace(each, read_at=None) for each in report.sources]
    return served, [tallies, msgspec.json.encode(report.first_findings)]


def unlike(files: dict[str, str], others: dict[str, str]) -> set[str]:
    """Return the names of the files that are not the same."""
    return {name for name in {*files, *others} if files.get(name) != others.get(name)}


def build(base: Path, step: Step, *, from_scratch: bool = False) -> Report:
    base.mkdir(exist_ok=True)
    sources = tuple(
        SourceOptions(
            name=name,
            path=write_lines(base / f"{name}.jsonl", records or [{"accepts": []}]),
            trust=step.trusts[name],
            max_removed=Fraction(1),
        )
        for name, records in step.sources.items()
    )
    options = BuildOptions(
        sources=sources,
        out=base / "artifacts",
        policy=step.policy,
        max_rejects=Fraction(1),
        ranking=RankingOptions(is_semantic=False),
        downloads=False,
        from_scratch=from_scratch,
        accept=frozenset(step.sources),
    )
    return build_snapshot(options)


def step_of(*given: Json, **policy: Any) -> Step:
    return Step({"one": [*given]}, {"one": 0}, Policy(**policy), 1)


def of_host(host: str, count: int = 2, **fields: Any) -> list[Json]:
    return [resource(f"https://{host}/{number}", **fields) for number in range(count)]


def test_only_new_resources_are_read_and_only_their_services_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = of_host("one.example"), of_host("two.example")
    build(tmp_path, step_of(*first, *second))
    grouped: list[str] = []

    def group(domain: str, *arguments: Any) -> Any:
        grouped.append(domain)
        return group_resources(domain, *arguments)

    monkeypatch.setattr("indexer.catalogue.discovered.group_resources", group)
    changed = of_host("two.example", 1, description="Rain")
    report = build(tmp_path, step_of(*first, *second[1:], *changed))
    assert (report.reused_records, grouped) == (3, ["two.example"])
    assert report.indexed == 1
    monkeypatch.setattr("indexer.x402.readings.read_resource", None)
    report = build(tmp_path, step_of(*first))
    assert (report.reused_records, len(listed(tmp_path / "artifacts"))) == (2, 1)


def test_rules_judge_known_resources_without_reading_those_that_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = [*of_host("one.example"), resource("http://one.example/plain")]
    dear = resource("https://one.example/dear", accept("2000000000"))
    build(tmp_path, step_of(*given, dear))
    monkeypatch.setattr("indexer.x402.readings.read_unjudged", None)
    for policy, count in (
        ({"allow_http": True}, 4),
        ({"max_price": Decimal(1)}, 2),
        ({"deny": (Denial(url="https://one.example/0"),)}, 2),
        ({"allow_http": True, "deny": (Denial(host="one.example"),)}, 0),
        ({}, 3),
    ):
        report = build(tmp_path, step_of(*given, dear, **policy))
        assert (report.sources[0].published, report.reused_records) == (count, 4)


def test_a_known_resource_may_be_merged_with_that_of_another_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (given,) = of_host("one.example", 1)
    other = given | {"accepts": [accept("5", network="solana", asset="x")]}
    step = Step({"one": [given], "other": [other]}, {"one": 0, "other": 0}, Policy(), 1)
    first = publish(tmp_path, step)
    monkeypatch.setattr("indexer.x402.readings.read_resource", None)
    sources = step.sources | {"one": [given, *of_host("one.example", 1)]}
    again = publish(tmp_path, step._replace(sources=sources))[0]
    assert unlike(first[0], again) == {"listings/fates.arrays", "listings/listings.arrays"}
