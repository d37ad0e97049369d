"""Builds that load a cluster: what is switched, kept, removed, and what failures leave."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from service.fetch import fetch
from tests.opensearch.conftest import EngineOptions
from tests.support.cluster.cluster import Cluster
from tests.support.running import (
    ROOT,
    eventually,
    run_indexer,
    serve,
    service,
    write_lines,
)

QUICK = ("--no-semantic", "--no-downloads")


@pytest.fixture
def api(cluster: Cluster) -> Iterator[httpx.Client]:
    """The API of the cluster."""
    with httpx.Client(base_url=cluster.urls[0], timeout=60) as api:
        yield api


@pytest.fixture
def artifacts(tmp_path: Path) -> Path:
    return tmp_path / "artifacts"


def build(
    artifacts: Path, options: EngineOptions, *words: str, more: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Build a catalogue with a service for each word."""
    records = [service(f"s-{word}", name=word, description="tides") for word in words]
    source = artifacts.parent / "source.json"
    source.write_text(json.dumps(records))
    return run_indexer("build", source, "--out", artifacts, *QUICK, *options.build, *more)


def indexes(api: httpx.Client, prefix: str) -> set[str]:
    """Return the indexes of a prefix."""
    return {each["index"] for each in api.get(f"/_cat/indices/{prefix}-*?format=json").json()}


def aliases(api: httpx.Client, prefix: str) -> dict[str, str]:
    """Return the index of each alias of a prefix."""
    answer = api.get(f"/_cat/aliases/{prefix}?format=json").json()
    return {each["alias"]: each["index"] for each in answer}


def current(artifacts: Path) -> str:
    return (artifacts / "CURRENT").read_text().strip()


def name(prefix: str, snapshot: str) -> str:
    return f"{prefix}-{snapshot}"


def total(client: httpx.Client, query: str) -> int:
    answer = client.get("/v1/search/services", params={"q": query}).json()
    return int(answer["total"])


def test_a_build_loads_counts_and_switches(
    api: httpx.Client, options: EngineOptions, prefix: str, artifacts: Path
) -> None:
    done = build(artifacts, options, "one", "two", "three")
    assert done.returncode == 0, done.stderr
    first = current(artifacts)
    assert indexes(api, prefix) == {name(prefix, first)}
    assert aliases(api, prefix) == {prefix: name(prefix, first)}
    assert api.get(f"/{prefix}/_count").json()["count"] == 3
    again = build(artifacts, options, "one", "two", "three")
    assert "nothing changed" in again.stdout
    assert current(artifacts) == first
    done = build(artifacts, options, "one", "two", "four")
    assert done.returncode == 0
    second = current(artifacts)
    assert aliases(api, prefix) == {prefix: name(prefix, second)}
    assert indexes(api, prefix) == {name(prefix, first), name(prefix, second)}


def test_replicas_are_changed_without_loading_again(
    api: httpx.Client, options: EngineOptions, prefix: str, artifacts: Path
) -> None:
    for replicas in ("1", "0"):
        more = ("--opensearch-replicas", replicas)
        assert build(artifacts, options, "one", more=more).returncode == 0
        answer = api.get(f"/{prefix}/_settings").json()
        (described,) = answer.values()
        assert described["settings"]["index"]["number_of_replicas"] == replicas
    assert len(indexes(api, prefix)) == 1


def test_indexes_of_removed_snapshots_are_removed(
    api: httpx.Client, options: EngineOptions, prefix: str, artifacts: Path
) -> None:
    for word in ("one", "two", "three", "four"):
        assert build(artifacts, options, word, more=("--keep", "1")).returncode == 0
    kept = {name(prefix, each.name) for each in (artifacts / "snapshots").iterdir()}
    assert name(prefix, current(artifacts)) in kept
    left = indexes(api, prefix)
    assert kept <= left
    assert len(left - kept) <= 1  # the next build removes it


def test_a_killed_build_leaves_what_is_served_and_its_index_to_the_next(
    api: httpx.Client, options: EngineOptions, prefix: str, artifacts: Path
) -> None:
    assert build(artifacts, options, "one").returncode == 0
    served, named = current(artifacts), aliases(api, prefix)
    source = write_lines(
        artifacts.parent / "many.jsonl",
        [service(f"m{number}", description="tides " * 5) for number in range(3000)],
    )
    command = [sys.executable, "-m", "indexer", "build", source, "--out", str(artifacts)]
    with subprocess.Popen(
        [*command, *QUICK, "--quiet", *options.build], cwd=ROOT, start_new_session=True
    ) as process:
        eventually(lambda: len(indexes(api, prefix)) > 1)
        os.killpg(process.pid, signal.SIGKILL)
    dead = indexes(api, prefix) - {name(prefix, served)}
    assert dead
    assert current(artifacts) == served
    assert aliases(api, prefix) == named
    with serve(artifacts, *options.serve) as client:
        assert total(client, "tides") == 1
    assert build(artifacts, options, "two").returncode == 0
    assert not indexes(api, prefix) & dead


def test_an_index_that_was_removed_or_is_short_is_loaded_again(
    api: httpx.Client, options: EngineOptions, prefix: str, artifacts: Path
) -> None:
    assert build(artifacts, options, "one", "two").returncode == 0
    snapshot = current(artifacts)
    assert api.delete(f"/{name(prefix, snapshot)}").status_code == 200
    assert build(artifacts, options, "one", "two").returncode == 0
    assert current(artifacts) == snapshot
    assert api.get(f"/{prefix}/_count").json()["count"] == 2
    gone = api.delete(f"/{name(prefix, snapshot)}/_doc/0?refresh=true")
    assert gone.status_code == 200
    assert build(artifacts, options, "one", "two").returncode == 0
    assert api.get(f"/{prefix}/_count").json()["count"] == 2


def test_builds_to_two_folders_with_one_prefix_remove_their_own_alone(
    api: httpx.Client, options: EngineOptions, prefix: str, artifacts: Path, tmp_path: Path
) -> None:
    assert build(artifacts, options, "one").returncode == 0
    other = tmp_path / "other"
    for word in ("two", "three", "four", "five"):
        assert build(other, options, word, more=("--keep", "1")).returncode == 0
    with serve(artifacts, *options.serve) as client:
        assert total(client, "one") == 1
    assert name(prefix, current(artifacts)) in indexes(api, prefix)
    again = build(tmp_path / "third", options, "five")
    assert "load the cluster" not in again.stderr
    assert current(tmp_path / "third") == current(other)


def test_a_copy_serves_what_it_fetched_with_the_same_cluster(
    options: EngineOptions, artifacts: Path, tmp_path: Path
) -> None:
    records = [service(f"r{number}", description="tides") for number in range(5)]
    source = write_lines(tmp_path / "source.jsonl", records)
    done = run_indexer("build", source, "--out", artifacts, "--no-semantic", *options.build)
    assert done.returncode == 0, done.stderr
    copy = tmp_path / "copy"
    with serve(artifacts, *options.serve) as origin:
        assert fetch(str(origin.base_url), copy) == current(artifacts)
    with serve(copy, *options.serve) as client:
        assert total(client, "tides") == 5


def test_an_empty_catalogue_is_loaded_and_served(options: EngineOptions, artifacts: Path) -> None:
    assert build(artifacts, options).returncode == 0
    with serve(artifacts, *options.serve) as client:
        assert total(client, "tides") == 0
        assert client.get("/v1/search/endpoints?q=tides&facets=network").json()["total"] == 0
        assert client.get("/v1/services").json()["total"] == 0
        assert client.get("/readyz").status_code == 200


def test_a_failed_load_leaves_what_was_served(
    api: httpx.Client, options: EngineOptions, artifacts: Path
) -> None:
    assert build(artifacts, options, "one").returncode == 0
    served = current(artifacts)
    nowhere = EngineOptions("", ("--opensearch-url", "http://127.0.0.1:1"))
    done = build(artifacts, nowhere, "two")
    assert done.returncode == 1
    assert "no node can be reached" in done.stderr
    assert current(artifacts) == served
    block = {"persistent": {"cluster.blocks.read_only": True}}
    assert api.put("/_cluster/settings", json=block).status_code == 200
    try:
        done = build(artifacts, options, "two")
        assert done.returncode == 1
        assert "read-only" in done.stderr
        assert current(artifacts) == served
        with serve(artifacts, *options.serve) as client:
            assert total(client, "tides") == 1
    finally:
        block = {"persistent": {"cluster.blocks.read_only": None}}  # type: ignore[dict-item]  # unset
        assert api.put("/_cluster/settings", json=block).status_code == 200
    assert build(artifacts, options, "two").returncode == 0
    assert current(artifacts) != served


def test_a_rollback_switches_the_alias_as_well(
    api: httpx.Client, options: EngineOptions, prefix: str, artifacts: Path
) -> None:
    assert build(artifacts, options, "one").returncode == 0
    first = current(artifacts)
    assert build(artifacts, options, "two").returncode == 0
    with serve(artifacts, *options.serve) as client:
        assert total(client, "two") == 1
        done = run_indexer("rollback", artifacts, *options.build[:4])
        assert done.returncode == 0, done.stderr
        eventually(lambda: total(client, "one") == 1)
    assert current(artifacts) == first
    assert aliases(api, prefix) == {prefix: name(prefix, first)}
