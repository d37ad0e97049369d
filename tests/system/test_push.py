"""Pushing snapshots to a store: builds that are killed, and objects that are collected."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import obstore
import pytest

from indexer.__main__ import main
from indexer.publishing.bucket import CLOCK, LOCK
from service.replicas.follower import Follower
from service.replicas.origin import POINTER, open_origin
from service.replicas.store import open_store
from service.snapshot.manifest import verify
from tests.support.artifacts import current, decompressed, folder
from tests.support.running import ROOT, SOAK, Json, service, write_lines
from tests.support.stores.faults import NONE, Fault, FaultProxy, run_fault_proxy
from tests.support.stores.object_store import SERVER, ObjectStore

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Store

BUILDS = 20 if SOAK else 7
KEPT = 3
SERVICES = 60
KILLS = 40
OLD = timedelta(days=2)
"""More than the day for which objects that nothing names stay."""


def write_source(path: Path, edition: int) -> str:
    """Write a catalogue, of which some services differ from edition to edition."""
    return write_lines(
        path,
        [
            service(f"s{n}", name=f"Harbour {n}", description=f"tides {edition if n < 3 else ''}")
            for n in range(SERVICES)
        ],
    )


def content_of(store: Store, key: str) -> bytes:
    return bytes(obstore.get(store, key).bytes())


def pointer_of(store: Store) -> Json | None:
    """Return the pointer of a store, or None where nothing was published."""
    try:
        content = content_of(store, POINTER)
    except FileNotFoundError:
        return None
    pointer: Json = json.loads(json.loads(content)["pointer"])
    return pointer


def keys_of(store: Store) -> set[str]:
    return {meta["path"] for page in obstore.list(store) for meta in page} - {CLOCK, LOCK}


def check_whole(store: Store) -> set[str]:
    """Check every file that the pointer names, by its hash; return the keys of all these."""
    pointer = pointer_of(store)
    if pointer is None:
        return set()
    served = pointer["kept"][0]
    assert (served["id"], served["manifest"]) == (pointer["id"], pointer["manifest"])
    if patches := served.get("patches"):
        name = f"patches/{patches['base']}-{pointer['id']}"
        index = content_of(store, f"{name}.json")
        assert hashlib.sha256(index).hexdigest() == patches["index"]
        frames = json.loads(index)["file"]["sha256"]
        assert hashlib.sha256(content_of(store, f"{name}.zst")).hexdigest() == frames
    named = {POINTER}
    for kept in pointer["kept"]:
        key = f"manifests/{kept['manifest']}.json"
        manifest = content_of(store, key)
        assert hashlib.sha256(manifest).hexdigest() == kept["manifest"]
        named.add(key)
        key = f"sections/{kept['manifest']}.json"
        sections = json.loads(content_of(store, key))["sections"]
        named.add(key)
        for path, file in json.loads(manifest)["files"].items():
            keys = [f"sections/{section['sha256']}.zst" for section in sections[path]]
            content = b"".join(decompressed(content_of(store, key)) for key in keys)
            assert hashlib.sha256(content).hexdigest() == file["sha256"], path
            named.update(keys)
    return named


def start_build(
    source: str, artifacts: Path, url: str, **environment: str
) -> subprocess.Popen[str]:
    """Start a build that pushes to a store."""
    command = [sys.executable, "-m", "indexer", "build", source, "--out", str(artifacts)]
    return subprocess.Popen(
        [*command, "--publish", url, "--keep", str(KEPT)],
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> None:
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output


def kill_at(process: subprocess.Popen[str], request: int, fault: Fault) -> Callable[..., Fault]:
    """Return a plan that kills a process at a request, and gives this one a fault."""
    left = [request]

    def plan(*_: str) -> Fault:
        left[0] -= 1
        if left[0] == 0:
            os.kill(process.pid, signal.SIGKILL)
            return fault
        return NONE

    return plan


@pytest.fixture
def proxied(
    object_store: ObjectStore, bucket: str
) -> Iterator[tuple[str, FaultProxy, dict[str, str]]]:
    """The URL of an unused prefix, and the proxy that builds reach it through."""
    with run_fault_proxy(object_store.endpoint) as proxy:
        yield bucket, proxy, {"AWS_ENDPOINT_URL": proxy.url}


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="test_every_request.py ends at each request")
def test_a_store_is_whole_whenever_a_build_is_killed(
    proxied: tuple[str, FaultProxy, dict[str, str]], artifacts: Path, tmp_path: Path
) -> None:
    url, proxy, environment = proxied
    store = open_store(url)
    chance = np.random.default_rng(7)
    source = write_source(tmp_path / "services.jsonl", 0)
    finish(start_build(source, artifacts, url, **environment))
    requests = len(proxy.requests)
    assert requests > 10
    for edition in range(1, KILLS + 1):
        before = pointer_of(store)
        assert before
        source = write_source(tmp_path / "services.jsonl", edition)
        process = start_build(source, artifacts, url, **environment)
        # Also past the end, where the pointer is put and objects are collected.
        instant = int(chance.integers(1, requests + 1))
        fault = Fault(status=500) if chance.integers(2) else Fault(lost=True)
        proxy.requests.clear()
        proxy.plan = kill_at(process, instant, fault)
        process.communicate(timeout=120)
        requests = max(len(proxy.requests), 10)
        proxy.plan = lambda *_: NONE
        check_whole(store)
        after = pointer_of(store)
        assert after
        assert (after["serial"] > before["serial"]) == (after != before)
        assert after["id"] in (before["id"], current(artifacts))
        finish(start_build(source, artifacts, url, **environment))
        check_whole(store)
        last = pointer_of(store)
        assert last
        assert last["id"] == current(artifacts)
        assert last["serial"] > before["serial"]
    replica = tmp_path / "replica"
    assert Follower(replica, open_origin(url)).look()
    assert current(replica) == current(artifacts)
    verify(folder(replica))


def make_older(place: Path, age: timedelta) -> None:
    """Make files older, and with them the objects that a folder or versitygw keeps in them."""
    then = time.time() - age.total_seconds()
    for path in place.rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))


@pytest.mark.parametrize("scheme", ["file", "s3"])
def test_after_each_of_many_builds_a_store_has_what_its_pointer_names_and_no_more(
    object_store: ObjectStore, bucket: str, artifacts: Path, tmp_path: Path, scheme: str
) -> None:
    if scheme == "s3":
        if SERVER == "moto":
            pytest.skip("the objects of moto's server cannot be made older: run `make servers`")
        url, place = bucket, object_store.objects / bucket.rpartition("/")[2]
    else:
        place = tmp_path / "bucket"
        place.mkdir()
        url = f"file://{place}"
    store, ids = open_store(url), []
    replica = tmp_path / "replica"
    follower = Follower(replica, open_origin(url))
    for edition in range(BUILDS):
        # As another publisher puts one, whose pointer does not name it yet.
        young = f"sections/{hashlib.sha256(b'%d' % edition).hexdigest()}.zst"
        store.put(young, b"young")
        source = write_source(tmp_path / "services.jsonl", edition)
        options = ["--out", str(artifacts), "--publish", url, "--keep", str(KEPT), "--quiet"]
        assert main(["build", source, *options]) == 0
        ids.append(current(artifacts))
        named = check_whole(store)
        pointer = pointer_of(store)
        assert pointer
        assert pointer["id"] == ids[-1]
        assert pointer["serial"] == edition + 1
        assert [kept["id"] for kept in pointer["kept"]] == ids[: -KEPT - 1 : -1]
        stored = keys_of(store)
        assert young in stored
        stored.remove(young)
        assert {key for key in stored if not key.startswith("patches/")} == named
        steps = {key.removeprefix("patches/")[:-4].partition(".")[0] for key in stored - named}
        assert steps <= {f"{one}-{two}" for one, two in pairwise(ids[-KEPT - 1 :])}
        assert follower.look()
        assert current(replica) == ids[-1]
        make_older(place, OLD)
