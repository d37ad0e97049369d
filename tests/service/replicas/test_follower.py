"""Following an origin: what is fetched, what is refused, and what stays served."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import logging
import os
import random
import re
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.__main__ import main
from service.artifacts.downloads import read_downloads
from service.artifacts.following import FOLLOWING, read_following
from service.errors import MAX_MESSAGE
from service.publishing.artifacts import stage
from service.publishing.frames import compress
from service.replicas.follower import Follower
from service.replicas.origin import open_origin
from service.snapshot.manifest import verify
from service.snapshot.publication import read_current
from service.snapshot.snapshot import open_snapshot
from tests.support.artifacts import current, decompressed, flip_a_bit, folder, snapshots
from tests.support.crash import Disk, Recorder, lay
from tests.support.running import Json, examples, service, write_lines
from tests.support.stores.origins import (
    POINTER,
    OriginServer,
    push,
    put_pointer,
    serial_of,
    serve_origin,
)

SERVICES = 120


class Editions(NamedTuple):
    """Two snapshots of one catalogue, and the folders that an origin has after each of them."""

    one: str
    two: str
    buckets: tuple[Path, Path]
    artifacts: Path


@pytest.fixture(scope="module")
def editions(tmp_path_factory: pytest.TempPathFactory) -> Editions:
    home = tmp_path_factory.mktemp("editions")
    artifacts, buckets, ids = home / "artifacts", (home / "first", home / "second"), [""]
    for edition, bucket in enumerate(buckets):
        records = [
            service(f"s{n}", name=f"Harbour {n}", description=f"tides {edition if n < 3 else ''}")
            for n in range(SERVICES)
        ]
        source = write_lines(home / "services.jsonl", records)
        assert main(["build", source, "--out", str(artifacts), "--quiet"]) == 0
        push(artifacts, bucket, serial=edition + 1)
        ids.append(current(artifacts))
    return Editions(ids[1], ids[2], buckets, artifacts)


@pytest.fixture
def origin(editions: Editions, tmp_path: Path) -> Iterator[OriginServer]:
    """An origin that has published the first edition."""
    shutil.copytree(editions.buckets[0], tmp_path / "bucket")
    with serve_origin(tmp_path / "bucket") as server:
        yield server


def truncate_to_nothing(path: Path) -> None:
    """Leave of a file what a power cut can leave where it was not flushed."""
    path.write_bytes(b"")


def publish_second(origin: OriginServer, editions: Editions) -> None:
    shutil.copytree(editions.buckets[1], origin.bucket, dirs_exist_ok=True)


def follower(artifacts: Path, origin: OriginServer, keep: int = 3) -> Follower:
    return Follower(artifacts, open_origin(origin.url), keep)


def failure(follower: Follower) -> str:
    """Look in vain, and return the code of the failure."""
    assert not follower.look()
    assert follower.state.error is not None
    return follower.state.error.code


def test_a_first_look_fetches_what_the_origin_publishes(
    origin: OriginServer, artifacts: Path, editions: Editions
) -> None:
    assert follower(artifacts, origin).look()
    assert current(artifacts) == editions.one
    verify(folder(artifacts))
    assert open_snapshot(artifacts).list(200).total == SERVICES
    assert not (artifacts / "incoming").exists()


@pytest.mark.parametrize("scheme", ["file", "http"])
def test_any_kind_of_origin_is_followed(
    origin: OriginServer, artifacts: Path, editions: Editions, scheme: str
) -> None:
    url = origin.url if scheme == "http" else f"file://{origin.bucket}"
    assert Follower(artifacts, open_origin(url)).look()
    assert current(artifacts) == editions.one


def test_files_that_did_not_change_are_linked_and_the_others_patched(
    origin: OriginServer, artifacts: Path, editions: Editions
) -> None:
    follows = follower(artifacts, origin)
    assert follows.look()
    publish_second(origin, editions)
    whole = origin.bytes_of("sections/")
    assert follows.look()
    assert current(artifacts) == editions.two
    verify(folder(artifacts))
    one, two = (artifacts / "snapshots" / each for each in (editions.one, editions.two))
    pairs = [(path, one / path.relative_to(two)) for path in two.rglob("*.arrays")]
    unchanged = [new for new, old in pairs if old.read_bytes() == new.read_bytes()]
    earlier = {path.stat().st_ino for path in one.rglob("*")}
    assert all(path.stat().st_ino in earlier for path in unchanged)
    assert len(unchanged) > 10
    assert origin.bytes_of("sections/") - whole < whole / 100
    assert origin.bytes_of("patches/") > 0


def test_a_look_without_news_asks_for_the_pointer_alone(
    origin: OriginServer, artifacts: Path
) -> None:
    follows = follower(artifacts, origin)
    assert follows.look()
    asked = len(origin.requests)
    assert follows.look()
    assert origin.requests[asked:] == [(POINTER, 0)]


@settings(max_examples=examples(20))
@given(st.randoms(use_true_random=False))
def test_a_fetch_that_is_cut_anywhere_resumes(editions: Editions, chance: random.Random) -> None:
    home = editions.artifacts.parent / "cuts"
    shutil.rmtree(home, ignore_errors=True)
    artifacts = home / "artifacts"
    with serve_origin(editions.buckets[0]) as server:
        total = sum(path.stat().st_size for path in (server.bucket / "sections").iterdir())
        server.cut = lambda _: chance.choice((None, None, chance.randrange(1, 200_000)))
        looks = 0
        while not follower(artifacts, server).look():  # each as after a restart
            looks += 1
            assert looks < 200
        assert current(artifacts) == editions.one
        verify(folder(artifacts))
        # A resumed transfer repeats a byte; bytes in flight are lost when a connection is cut.
        assert server.bytes_of("sections/") < 1.5 * total


def test_a_look_that_takes_too_long_ends_and_the_next_ones_go_on(
    origin: OriginServer, artifacts: Path, editions: Editions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.replicas.origin.monotonic", itertools.count().__next__)
    monkeypatch.setattr("service.replicas.origin.LOOK", 30.0)
    follows = follower(artifacts, origin)
    assert failure(follows) == "origin_unavailable"
    assert follows.state.error is not None
    assert "took longer than 30 seconds" in follows.state.error.message
    looks = 1
    while not follows.look():
        looks += 1
        assert looks < 100
    assert current(artifacts) == editions.one
    verify(folder(artifacts))


def test_files_that_were_fetched_before_a_cut_are_not_fetched_again(
    origin: OriginServer, artifacts: Path, editions: Editions
) -> None:
    largest = max((origin.bucket / "sections").glob("*.zst"), key=lambda path: path.stat().st_size)
    origin.cut = lambda path: 1000 if path.endswith(largest.name) else None
    assert failure(follower(artifacts, origin)) == "origin_unavailable"
    before = len(origin.requests)
    origin.cut = lambda _: None
    assert follower(artifacts, origin).look()
    repeated = {path for path, _ in origin.requests[:before]} & {
        path for path, _ in origin.requests[before:]
    }
    assert {path for path in repeated if path.endswith(".zst")} <= {f"sections/{largest.name}"}
    assert current(artifacts) == editions.one


def test_what_was_left_of_another_snapshot_is_removed_before_files_are_fetched(
    origin: OriginServer, artifacts: Path
) -> None:
    left = artifacts / "incoming" / "00-11.patches"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"left")
    origin.cut = lambda path: 1000 if path.endswith(".zst") else None
    assert failure(follower(artifacts, origin)) == "origin_unavailable"
    assert not left.exists()


def test_what_was_left_of_another_frame_of_a_file_is_fetched_again(
    origin: OriginServer, artifacts: Path, editions: Editions
) -> None:
    incoming = artifacts / "incoming"
    incoming.mkdir(parents=True)
    for number, frame in enumerate((origin.bucket / "sections").glob("*.zst")):
        size = frame.stat().st_size
        (incoming / frame.name).write_bytes(bytes((0, size // 2, size, 2 * size)[number % 4]))
    assert follower(artifacts, origin).look()
    assert current(artifacts) == editions.one
    verify(folder(artifacts))


def corrupt(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x55
    path.write_bytes(content)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def replace_by_another(path: Path) -> None:
    path.write_bytes(compress(b"another file"))


def replace_by_a_bomb(path: Path) -> None:
    path.write_bytes(compress(bytes(1 << 30)))


def replace_by_another_of_its_size(path: Path) -> None:
    size = len(decompressed(path.read_bytes()))
    path.write_bytes(compress(bytes(size)))


def replace_by_a_larger_one(path: Path) -> None:
    path.write_bytes(bytes(1 << 22))


DAMAGES = [corrupt, truncate, replace_by_another, replace_by_a_bomb]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        *((damage, "records.json") for damage in (*DAMAGES, replace_by_another_of_its_size)),
        (replace_by_a_larger_one, "is larger than the"),
    ],
)
def test_a_damaged_file_is_refused_until_it_is_repaired(
    origin: OriginServer, artifacts: Path, editions: Editions, damage: Any, reason: str
) -> None:
    follows = follower(artifacts, origin)
    assert follows.look()
    publish_second(origin, editions)
    shutil.rmtree(origin.bucket / "patches")
    (name,) = added_section(editions, "records.json")
    damage(origin.bucket / "sections" / name)
    assert failure(follows) == "file_refused"
    assert follows.state.error is not None
    assert reason in follows.state.error.message
    assert current(artifacts) == editions.one
    verify(folder(artifacts))
    assert follows.state.behind_since == follows.state.published_at
    publish_second(origin, editions)
    assert follows.look()
    assert current(artifacts) == editions.two
    verify(folder(artifacts))


@pytest.mark.parametrize("damage", DAMAGES)
def test_with_damaged_patches_whole_files_are_fetched(
    origin: OriginServer,
    artifacts: Path,
    editions: Editions,
    damage: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    follows = follower(artifacts, origin)
    assert follows.look()
    publish_second(origin, editions)
    (patches,) = (origin.bucket / "patches").glob("*.zst")
    damage(patches)
    assert follows.look()
    assert "no patches are used: " in caplog.text
    assert current(artifacts) == editions.two
    verify(folder(artifacts))


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"from":"","to":"","patches":{"records.json":[{}]}}', "\xff"]
)
def test_with_a_damaged_list_of_patches_whole_files_are_fetched(
    origin: OriginServer, artifacts: Path, editions: Editions, content: str
) -> None:
    follows = follower(artifacts, origin)
    assert follows.look()
    publish_second(origin, editions)
    (patches,) = (origin.bucket / "patches").glob("*.json")
    patches.write_text(content, "latin-1")
    name_patches(origin)
    assert follows.look()
    assert current(artifacts) == editions.two


def name_patches(origin: OriginServer) -> None:
    """Have the pointer of the origin name the list of patches that is there now."""
    (path,) = (origin.bucket / "patches").glob("*.json")
    pointer = json.loads(json.loads((origin.bucket / POINTER).read_text())["pointer"])
    pointer["kept"][0]["patches"]["index"] = hashlib.sha256(path.read_bytes()).hexdigest()
    put_pointer(origin.bucket, pointer | {"serial": pointer["serial"] + 1})


def test_patches_that_the_pointer_does_not_name_are_neither_fetched_nor_applied(
    origin: OriginServer, artifacts: Path, editions: Editions, caplog: pytest.LogCaptureFixture
) -> None:
    follows = follower(artifacts, origin)
    assert follows.look()
    publish_second(origin, editions)
    (path,) = (origin.bucket / "patches").glob("*.json")
    path.write_text(f"{path.read_text()} ")
    assert follows.look()
    assert current(artifacts) == editions.two
    assert "has not the SHA-256 of the pointer" in caplog.text
    assert origin.bytes_of(f"patches/{path.stem}.zst") == 0


@pytest.mark.parametrize(
    ("piece", "count", "reason"),
    [
        ([0, 1 << 40, 0, 0, 20, 4], 200, "pieces for"),
        ([0, 1 << 40, 1, 0, 20, 4], 200, "repeatedly"),
        ([0, 0, 1, 0, 1 << 40, 0], 200, "too long"),
        ([0, 0, 1, 0, 20, 0], 1000, "pieces for"),
    ],
)
def test_a_patch_that_takes_more_work_than_its_file_is_not_applied(
    origin: OriginServer,
    artifacts: Path,
    editions: Editions,
    caplog: pytest.LogCaptureFixture,
    piece: list[int],
    count: int,
    reason: str,
) -> None:
    follows = follower(artifacts, origin)
    assert follows.look()
    publish_second(origin, editions)
    (path,) = (origin.bucket / "patches").glob("*.json")
    path.with_suffix(".zst").write_bytes(frames := bytes(1 << 17))
    listed = json.loads(path.read_text())
    size = sum(piece[2] for piece in listed["patches"]["records.json"])
    rest = size - count * piece[2]
    listed["patches"] = {"records.json": [piece] * count + [[0, rest, rest, 0, 0, 0]]}
    listed["file"] = {"bytes": len(frames), "sha256": hashlib.sha256(frames).hexdigest()}
    path.write_text(json.dumps(listed))
    name_patches(origin)
    assert follows.look()
    assert current(artifacts) == editions.two
    verify(folder(artifacts))
    assert reason in caplog.text


def test_patches_that_point_outside_of_their_file_are_not_used(
    origin: OriginServer, artifacts: Path, editions: Editions, caplog: pytest.LogCaptureFixture
) -> None:
    follows = follower(artifacts, origin)
    assert follows.look()
    publish_second(origin, editions)
    (path,) = (origin.bucket / "patches").glob("*.json")
    listed = json.loads(path.read_text())
    for number, (first, *_) in enumerate(listed["patches"].values()):
        first[3 * (number % 2)] = 1 << (20, 40)[number % 4 // 2]
    path.write_text(json.dumps(listed))
    name_patches(origin)
    assert follows.look()
    assert current(artifacts) == editions.two
    verify(folder(artifacts))
    assert "is fetched whole" in caplog.text


def added_section(editions: Editions, path: str) -> list[str]:
    manifest = json.loads((folder(editions.artifacts) / "manifest.json").read_bytes())
    return [f"{manifest['files'][path]['sha256']}.zst"]


def test_a_manifest_that_is_not_the_one_of_the_pointer_is_refused(
    origin: OriginServer, artifacts: Path
) -> None:
    (manifest,) = (origin.bucket / "manifests").iterdir()
    manifest.write_bytes(re.sub(rb'"built_at":"20..', b'"built_at":"2000', manifest.read_bytes()))
    follows = follower(artifacts, origin)
    assert failure(follows) == "manifest_refused"
    assert follows.state.error is not None
    assert "SHA-256" in follows.state.error.message


@pytest.mark.parametrize(
    "path",
    [
        "../escaped",
        "../../CURRENT",
        "/tmp/escaped",  # noqa: S108  # must not be written
        "postings/../../../escaped",
        "./records.json",
        "a//b",
        "a/",
        "",
        ".hidden",
        "manifest.json",
        "records.json/inside",
        "nul\0l",
        "line\nbreak",
        "back\\slash",
        "x" * 300,
    ],
)
def test_a_manifest_with_a_hostile_path_is_refused(
    origin: OriginServer, artifacts: Path, path: str
) -> None:
    change_manifest(origin, lambda manifest: manifest["files"].update({path: some_file(manifest)}))
    before = set(artifacts.parent.rglob("*"))
    assert failure(follower(artifacts, origin)) == "manifest_refused"
    added = {each for each in set(artifacts.parent.rglob("*")) - before if each.is_file()}
    assert {each.relative_to(artifacts).as_posix() for each in added} == {".lock", "following.json"}


def test_a_manifest_of_another_snapshot_or_with_unknown_fields_is_refused(
    origin: OriginServer, artifacts: Path
) -> None:
    for change in ({"id": "0" * 20}, {"format": 1}, {"unknown": 1}, {"files": 3}):
        change_manifest(origin, lambda manifest, change=change: manifest.update(change))
        assert failure(follower(artifacts, origin)) == "manifest_refused"


def some_file(manifest: Json) -> Json:
    return dict(manifest["files"]["records.json"])


def change_manifest(origin: OriginServer, change: Any) -> None:
    """Change the manifest of the origin, and have the pointer name the changed one."""
    pointer = json.loads(json.loads((origin.bucket / POINTER).read_text())["pointer"])
    manifest = json.loads((origin.bucket / "manifests" / f"{pointer['manifest']}.json").read_text())
    change(manifest)
    content = json.dumps(manifest, separators=(",", ":"), ensure_ascii=False).encode()
    digest = hashlib.sha256(content).hexdigest()
    (origin.bucket / "manifests" / f"{digest}.json").write_bytes(content)
    put_pointer(origin.bucket, pointer | {"manifest": digest, "serial": pointer["serial"] + 1})


@pytest.mark.parametrize(
    "change",
    [
        {"id": "../../../escaped"},
        {"id": ""},
        {"manifest": "../x"},
        {"format": 1},
        {"serial": "1"},
        {"published_at": "yesterday"},
    ],
)
def test_a_pointer_that_is_none_is_refused(
    origin: OriginServer, artifacts: Path, change: Json
) -> None:
    pointer = json.loads(json.loads((origin.bucket / POINTER).read_text())["pointer"])
    put_pointer(origin.bucket, pointer | change)
    assert failure(follower(artifacts, origin)) == "pointer_refused"


def test_a_pointer_with_a_lower_serial_is_refused_after_a_restart_too(
    origin: OriginServer, artifacts: Path, editions: Editions
) -> None:
    publish_second(origin, editions)
    assert follower(artifacts, origin).look()
    shutil.copy(editions.buckets[0] / POINTER, origin.bucket / POINTER)
    assert failure(follower(artifacts, origin)) == "pointer_refused"
    assert current(artifacts) == editions.two


def test_a_serial_outlives_a_power_cut_at_any_instant_of_a_later_look(
    origin: OriginServer, tmp_path: Path
) -> None:
    home, replayed = tmp_path / "home", tmp_path / "replayed"
    follows = follower(home / "artifacts", origin)
    assert follows.look()
    (tmp_path / "contents").mkdir()
    recording = Recorder(home, tmp_path / "contents").record(follows.look)
    disk = Disk(recording)
    found = set()
    for operation in recording.operations:
        disk.apply(operation)
        for trees in disk.crashes():
            files = {FOLLOWING: trees["artifacts"].get(FOLLOWING)}
            lay(files, recording.contents, replayed)
            state = read_following(replayed)
            found.add(state and state.serial)
            shutil.rmtree(replayed)
    assert found == {1}


@pytest.mark.parametrize("damage", [truncate_to_nothing, Path.unlink])
def test_a_pointer_that_was_passed_on_is_remembered_without_a_state(
    origin: OriginServer, artifacts: Path, editions: Editions, damage: Callable[[Path], None]
) -> None:
    publish_second(origin, editions)
    assert follower(artifacts, origin).look()
    damage(artifacts / FOLLOWING)
    shutil.copy(editions.buckets[0] / POINTER, origin.bucket / POINTER)
    assert failure(follower(artifacts, origin)) == "pointer_refused"
    (artifacts / FOLLOWING).unlink()
    (artifacts / "pointer.json").unlink()
    assert follower(artifacts, origin).look()


def test_the_pointer_of_another_origin_is_not_remembered(
    origin: OriginServer, artifacts: Path, editions: Editions
) -> None:
    publish_second(origin, editions)
    assert follower(artifacts, origin).look()
    other = f"file://{editions.buckets[0]}"
    with stage(artifacts):
        for _ in range(2):  # as after a restart
            assert failure(Follower(artifacts, open_origin(other))) == "artifacts_busy"
    assert Follower(artifacts, open_origin(other)).look()
    assert current(artifacts) == editions.one


def test_with_a_key_a_damaged_state_is_refused_until_it_is_removed(
    origin: OriginServer, artifacts: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = Ed25519PrivateKey.generate()
    sign = lambda text: key.sign(text).hex()  # noqa: E731  # beside its key
    pointer = json.loads(json.loads((origin.bucket / POINTER).read_text())["pointer"])
    put_pointer(origin.bucket, pointer | {"serial": 7}, sign)

    def trusting() -> Follower:
        return Follower(artifacts, open_origin(origin.url), trust=key.public_key())

    assert trusting().look()
    truncate_to_nothing(artifacts / FOLLOWING)
    for _ in range(2):  # as after a restart
        follows = trusting()
        for _ in range(2):
            assert failure(follows) == "state_damaged"
    assert len(caplog.records) == 2
    state = read_following(artifacts)
    assert state is not None
    assert state.error is not None
    assert state.error.message.endswith("remove it to accept publications from serial 7 on")
    (artifacts / FOLLOWING).unlink()
    put_pointer(origin.bucket, pointer | {"serial": 6}, sign)
    assert failure(follows) == "pointer_refused"
    put_pointer(origin.bucket, pointer | {"serial": 8}, sign)
    assert follows.look()


def test_a_serial_is_remembered_before_anything_is_fetched(
    origin: OriginServer, artifacts: Path
) -> None:
    remembered = []

    def remember(path: str) -> None:
        if path != POINTER:
            remembered.append(json.loads((artifacts / "following.json").read_bytes())["serial"])

    origin.answer_with = remember
    assert follower(artifacts, origin).look()
    assert set(remembered) == {1}


def test_a_rollback_is_a_higher_serial_and_fetches_nothing(
    origin: OriginServer, artifacts: Path, editions: Editions
) -> None:
    follows = follower(artifacts, origin)
    assert follows.look()
    first = json.loads(json.loads((origin.bucket / POINTER).read_text())["pointer"])
    publish_second(origin, editions)
    assert follows.look()
    put_pointer(origin.bucket, first | {"serial": serial_of(origin.bucket) + 1})
    asked = len(origin.requests)
    assert follows.look()
    assert current(artifacts) == editions.one
    assert [path for path, _ in origin.requests[asked:]] == [POINTER]


def test_a_damaged_copy_is_repaired(
    origin: OriginServer, artifacts: Path, editions: Editions
) -> None:
    follows = follower(artifacts, origin)
    assert follows.look()
    flip_a_bit(folder(artifacts) / "records.json")
    assert follows.look()
    verify(folder(artifacts))
    flip_a_bit(folder(artifacts) / "records.json")
    publish_second(origin, editions)
    assert follower(artifacts, origin).look()
    assert current(artifacts) == editions.two
    verify(folder(artifacts))


@pytest.mark.parametrize("is_served", [True, False])
def test_a_kept_manifest_that_is_not_the_one_of_the_pointer_is_replaced(
    origin: OriginServer, artifacts: Path, editions: Editions, is_served: bool
) -> None:
    follows = follower(artifacts, origin)
    assert follows.look()
    path = folder(artifacts) / "manifest.json"
    published = path.read_bytes()
    if not is_served:
        first = json.loads(json.loads((origin.bucket / POINTER).read_text())["pointer"])
        publish_second(origin, editions)
        assert follows.look()
        put_pointer(origin.bucket, first | {"serial": serial_of(origin.bucket) + 1})
    path.write_bytes(re.sub(rb'"built_at": "20..', b'"built_at": "2000', published))
    verify(path.parent)  # finds no damage: the id is a hash of the other files
    assert follower(artifacts, origin).look()
    assert current(artifacts) == editions.one
    assert path.read_bytes() == published


def test_the_pointer_of_the_origin_is_kept_for_replicas_of_this_one(
    origin: OriginServer, artifacts: Path, editions: Editions
) -> None:
    follows = follower(artifacts, origin)
    for _ in range(2):
        assert follows.look()
        assert (artifacts / "pointer.json").read_bytes() == (origin.bucket / POINTER).read_bytes()
        publish_second(origin, editions)


def test_a_snapshot_is_checked_when_the_origin_last_published_it(
    origin: OriginServer, artifacts: Path
) -> None:
    follows = follower(artifacts, origin)
    for time in ("2026-05-07T10:16:51Z", "2026-05-07T10:31:51Z"):
        pointer = json.loads(json.loads((origin.bucket / POINTER).read_text())["pointer"])
        put_pointer(
            origin.bucket, pointer | {"published_at": time, "serial": pointer["serial"] + 1}
        )
        assert follows.look()
        assert read_current(artifacts).checked_at == datetime.fromisoformat(time)


def test_as_many_snapshots_are_kept_as_asked_for(
    origin: OriginServer, artifacts: Path, editions: Editions
) -> None:
    follows = follower(artifacts, origin, keep=1)
    assert follows.look()
    publish_second(origin, editions)
    assert follows.look()
    assert snapshots(artifacts) == {editions.two}


def test_what_was_fetched_stays_while_the_origin_is_away(
    origin: OriginServer, artifacts: Path, editions: Editions
) -> None:
    follows = follower(artifacts, origin)
    assert follows.look()
    origin.answer_with = lambda _: 500
    assert failure(follows) == "origin_unavailable"
    assert current(artifacts) == editions.one
    pauses = []
    for _ in range(5):
        pauses.append(follows.pause(10, 1.0))
        follows.look()
    assert pauses == [20, 40, 60, 60, 60]
    assert follows.pause(10, 0.0) == 10
    assert follows.state.failures == 6
    origin.answer_with = lambda _: None
    assert follows.look()
    assert follows.state.error is None
    assert follows.pause(10, 1.0) == 10


def test_an_origin_that_published_nothing_is_missing_a_pointer(
    origin: OriginServer, artifacts: Path
) -> None:
    (origin.bucket / POINTER).unlink()
    assert failure(follower(artifacts, origin)) == "pointer_missing"


def test_a_lock_that_a_build_holds_is_reported(origin: OriginServer, artifacts: Path) -> None:
    artifacts.mkdir()
    follows = follower(artifacts, origin)
    with stage(artifacts):
        assert failure(follows) == "artifacts_busy"
    assert follows.look()


def test_a_snapshot_for_which_the_disk_has_no_room_is_not_fetched(
    origin: OriginServer, artifacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = shutil._ntuple_diskusage(1 << 40, 1 << 40, 1000)  # noqa: SLF001
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    assert failure(follower(artifacts, origin)) == "disk_full"
    assert not any(path.endswith(".zst") for path, _ in origin.requests)


@pytest.mark.parametrize("status", [401, 403, 409, 500])
def test_the_body_of_an_error_is_neither_searched_nor_shown(
    origin: OriginServer, artifacts: Path, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    origin.answer_with = lambda _: status
    origin.body = b"\x1b[31msecret in " + b"1" * 2_000_000 + b"s, after 3 retries, secret"
    follows = follower(artifacts, origin)
    for _ in range(2):
        assert failure(follows) == "origin_unavailable"
    error = follows.state.error
    assert error is not None
    assert error.message.endswith(f"status code: {status} {HTTPStatus(status).phrase}")
    assert origin.url in error.message
    assert [record.getMessage() for record in caplog.records] == [
        f"{origin.url} is not followed: {error.message}"
    ]
    assert (artifacts / "following.json").stat().st_size < 1000


def test_the_answer_of_a_server_that_the_origin_redirects_to_is_not_shown(
    origin: OriginServer, artifacts: Path, tmp_path: Path
) -> None:
    with serve_origin(tmp_path) as internal:
        internal.answer_with = lambda _: 403
        internal.body = b"internal secret"
        origin.answer_with = lambda _: 302
        origin.location = f"{internal.url}/secret"
        follows = follower(artifacts, origin)
        assert failure(follows) == "origin_unavailable"
    assert follows.state.error is not None
    assert "403 Forbidden" in follows.state.error.message
    assert "secret" not in (artifacts / "following.json").read_text()


@pytest.mark.parametrize("place", ["id", "format"])
def test_a_message_has_few_characters_of_the_origin_and_all_can_be_printed(
    origin: OriginServer, artifacts: Path, place: str
) -> None:
    text = "\x1b]0;title\x07\u202e\n" * 100_000
    change_manifest(origin, lambda manifest: manifest.update({place: text}))
    follows = follower(artifacts, origin)
    assert failure(follows) == "manifest_refused"
    assert follows.state.error is not None
    assert len(follows.state.error.message) <= MAX_MESSAGE
    assert follows.state.error.message.isprintable()


def test_downloads_that_cannot_be_made_are_an_error_and_are_tried_ever_less_often(
    origin: OriginServer,
    artifacts: Path,
    editions: Editions,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    attempts = []

    def fail(*_: object) -> None:
        attempts.append(follows.state.failures)
        raise OSError(errno.ENOSPC, "No space left on device")

    follows = Follower(artifacts, open_origin(origin.url), downloads=True)
    with monkeypatch.context() as patch:
        patch.setattr("service.replicas.follower.make_downloads", fail)
        for _ in range(200):
            assert failure(follows) == "downloads_failed"
    assert attempts == [0, 1, 2, 4, 8, 16, 32, 64, 128, 192]
    assert current(artifacts) == editions.one
    assert follows.state.behind_since is None
    assert follows.state.error is not None
    assert "No space left" in follows.state.error.message
    assert len([each for each in caplog.records if each.levelno == logging.WARNING]) == 1
    assert not (artifacts / "pointer.json").exists()
    follows = Follower(artifacts, open_origin(origin.url), downloads=True)  # as after a restart
    assert follows.look()
    found = read_downloads(artifacts).newest_publication()
    assert found is not None
    assert found.content == (origin.bucket / POINTER).read_bytes()


@pytest.mark.parametrize(
    ("user", "password"), [("user", "secret"), ("user", "se@cret"), ("us er", "a secret")]
)
def test_the_state_names_no_credentials(artifacts: Path, user: str, password: str) -> None:
    url = f"http://{user}:{password}@127.0.0.1:1/catalogue?token=secret"
    follows = Follower(artifacts, open_origin(url))
    assert failure(follows) == "origin_unavailable"
    assert "cret" not in (artifacts / "following.json").read_text()
    assert follows.state.origin == "http://127.0.0.1:1/catalogue"
