"""Discovered services over several builds, which do not depend on what was built before."""

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
from indexer.options import BuildOptions, Denial, Policy, RankingOptions, SourceOptions, Stablecoin
from indexer.report import Report
from service.snapshot.manifest import read_manifest
from tests.support.artifacts import folder
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
        whoosh=False,
        from_scratch=from_scratch,
        accept=frozenset(step.sources),
    )
    return build_snapshot(options)
