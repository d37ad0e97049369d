"""Following a bucket whose server fails at random."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from indexer.__main__ import main
from service.replicas.follower import Follower
from service.replicas.origin import POINTER, open_origin
from service.replicas.store import open_store
from service.snapshot.manifest import verify
from tests.support.artifacts import current, folder
from tests.support.running import examples, service, write_lines
from tests.support.stores.faults import NONE, Fault, FaultProxy, random_plan, run_fault_proxy
from tests.support.stores.object_store import ObjectStore
from tests.support.stores.origins import push, upload

SERVICES = 100
REASONS = {"origin_unavailable", "file_refused", "manifest_refused", "pointer_refused"}


class Pushed(NamedTuple):
    """A prefix of a bucket with two editions of a catalogue, and the pointer to each."""

    url: str
    ids: tuple[str, str]
    pointers: tuple[bytes, bytes]


@pytest.fixture
def proxy(object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    """A proxy in front of the S3 server, which the environment names."""
    with run_fault_proxy(object_store.endpoint) as proxy:
        for name, value in object_store.environment_of(proxy.url).items():
            monkeypatch.setenv(name, value)
        yield proxy


@pytest.fixture
def pushed(bucket: str, tmp_path: Path) -> Pushed:
    artifacts, origin = tmp_path / "built", tmp_path / "origin"
    ids, pointers = [""], []
    for edition in range(2):
        source = write_lines(
            tmp_path / "services.jsonl",
            [service(f"s{n}", description=f"tides {edition * (n < 3)}") for n in range(SERVICES)],
        )
        assert main(["build", source, "--out", str(artifacts), "--quiet"]) == 0
        push(artifacts, origin, serial=edition + 1)
        ids.append(current(artifacts))
        pointers.append((origin / POINTER).read_bytes())
    upload(origin, bucket)
    return Pushed(bucket, (ids[1], ids[2]), (pointers[0], pointers[1]))


@settings(
    max_examples=examples(10),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@example(seed=0, truncates=True)
@given(seed=st.integers(0, 2**32), truncates=st.booleans())
def test_a_follower_has_a_whole_snapshot_whatever_the_server_does(
    pushed: Pushed, proxy: FaultProxy, seed: int, truncates: bool
) -> None:
    faults = [Fault(truncate=100), Fault(cut=1000), Fault(status=500)] if truncates else ()
    with TemporaryDirectory() as name:
        artifacts = Path(name, "artifacts")
        follower = Follower(artifacts, open_origin(pushed.url))
        for edition, snapshot in enumerate(pushed.ids):
            proxy.plan = lambda *_: NONE
            open_store(pushed.url).put(POINTER, pushed.pointers[edition])
            proxy.plan = random_plan(seed + edition, 0.5, faults)
            for _ in range(3):
                if follower.look():
                    break
                assert follower.state.error is not None
                assert follower.state.error.code in REASONS
                if edition:
                    assert current(artifacts) == pushed.ids[0]
                    verify(folder(artifacts))
            proxy.plan = lambda *_: NONE
            follower.look()
            assert follower.state.error is None
            assert current(artifacts) == snapshot
            verify(folder(artifacts))
