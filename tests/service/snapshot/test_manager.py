"""The snapshot manager: opening, hot swaps, refusals and retries."""

from __future__ import annotations

import errno
import gc
import hashlib
import logging
import os
import shutil
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer.__main__ import main
from service.errors import SnapshotDamaged, SnapshotMissing, SnapshotUnavailable
from service.snapshot.manager import SnapshotManager
from tests.support.artifacts import current, flip_a_bit, folder
from tests.support.publishing import publish_service as publish
from tests.support.running import Build, eventually, payment, service


@pytest.fixture
def manager(artifacts: Path) -> Iterator[SnapshotManager]:
    manager = SnapshotManager(artifacts)
    yield manager
    manager.stop()


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let watchers look and retry sooner."""
    monkeypatch.setattr("service.snapshot.manager.POLL_INTERVAL", 0.01)
    monkeypatch.setattr("service.snapshot.manager.RETRY_AFTER", 0.05)


def serves(manager: SnapshotManager, name: str) -> bool:
    """Return whether the manager serves a snapshot that has a service of this id."""
    opened = manager.opened
    return opened is not None and opened.find(name) is not None


def mapped(folder: Path) -> list[str]:
    """Return the files below a folder that this process has mapped, removed ones included."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return [line.split(maxsplit=5)[-1] for line in lines if f"{folder}/" in line]


def test_the_published_snapshot_is_opened_once(artifacts: Path, manager: SnapshotManager) -> None:
    published = publish(artifacts, "a")
    manager.open()
    opened = manager.current()
    assert manager.opened is opened
    assert opened.id == published.name
    publish(artifacts, "b")
    manager.open()
    assert manager.current() is opened


def test_a_failed_opening_is_cached_until_the_next_poll(
    artifacts: Path, manager: SnapshotManager
) -> None:
    with pytest.raises(SnapshotUnavailable, match="the readiness check says why"):
        manager.current()
    manager.open()
    publish(artifacts, "a")
    errors = []
    for _ in range(2):
        with pytest.raises(SnapshotMissing, match="run `ratecard build SOURCE") as raised:
            manager.current()
        errors.append(raised.value)
    assert errors[0] is not errors[1]  # raising one exception again extends its traceback
    manager.poll()
    assert (manager.current().id, manager.refusal) == (current(artifacts), None)


def test_each_further_reason_why_nothing_is_served_is_logged_once(
    artifacts: Path, manager: SnapshotManager, caplog: pytest.LogCaptureFixture
) -> None:
    manager.open()
    for _ in range(2):
        manager.poll()
    assert not caplog.messages  # the lifespan logs the first reason
    publish(artifacts, "a")
    shutil.rmtree(artifacts / "snapshots")
    for _ in range(2):
        manager.poll()
    messages = [each for each in caplog.messages if each.startswith("still without a snapshot: ")]
    assert len(messages) == 1
    assert "cannot be read" in messages[0]


@pytest.mark.parametrize("days", [-1, 1])
def test_a_folder_whose_files_have_any_date_is_read_when_it_changes(
    days: int, artifacts: Path, manager: SnapshotManager
) -> None:
    dated = time.time() + days * 86_400
    for name in ("a", "b"):
        publish(artifacts, name)
        for path in (artifacts / "CURRENT", artifacts / "snapshots", artifacts):
            os.utime(path, (dated, dated))
        manager.open()
        manager.poll()
        assert serves(manager, name)


def test_current_without_a_snapshots_folder_is_damaged(
    artifacts: Path, manager: SnapshotManager
) -> None:
    publish(artifacts, "a")
    shutil.rmtree(artifacts / "snapshots")
    manager.open()
    with pytest.raises(SnapshotDamaged, match="is damaged; rebuild it"):
        manager.current()
    assert "cannot be read: No such file or directory; rebuild" in str(manager.refusal)


@pytest.mark.usefixtures("hurried")
def test_the_watcher_opens_the_first_snapshot_and_swaps_in_the_next(
    artifacts: Path, manager: SnapshotManager
) -> None:
    manager.start()
    for name in ("a", "b"):
        publish(artifacts, name)
        eventually(lambda name=name: serves(manager, name))  # type: ignore[misc]  # mypy does not infer lambdas with defaults
    assert manager.swaps == 1


def test_a_swap_is_logged_and_leaves_the_old_snapshot_usable(
    artifacts: Path, manager: SnapshotManager, caplog: pytest.LogCaptureFixture
) -> None:
    publish(artifacts, "a")
    with caplog.at_level(logging.INFO, "uvicorn.error"):
        manager.open()
        before = manager.current()
        publish(artifacts, "b")
        manager.poll()
    after = manager.current()
    assert (manager.swaps, manager.refusals) == (1, 0)
    assert before.find("a") is not None
    assert after.find("b") is not None
    assert caplog.messages == [
        f"serving snapshot {before.id}: 1 services, 1 endpoints, 0 payments",
        f"serving snapshot {after.id} instead of {before.id}: 1 services, 1 endpoints, 0 payments",
    ]


def test_a_snapshot_is_freed_with_its_last_reference(
    artifacts: Path, build: Build, manager: SnapshotManager
) -> None:
    record = service("first", name="Harbour", description="The weather of harbours")
    assert build([record], payments=[payment()]) == 0
    manager.open()
    before = manager.current()
    assert before.search("haarbour wea").total == 1
    reference, old = weakref.ref(before), folder(artifacts)
    assert build([service("b")]) == 0
    manager.poll()
    assert mapped(old) != []
    gc.disable()  # reference counting alone must free it
    try:
        del before
        assert reference() is None
        assert mapped(old) == []
    finally:
        gc.enable()


def cut_manifest(path: Path) -> None:
    manifest = path / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:100])


def raise_format(path: Path) -> None:
    manifest = path / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"format": ', b'"format": 9'))


DAMAGES: dict[str, tuple[Callable[[Path], Any], str, str]] = {
    "a missing file": (lambda path: (path / "records.json").unlink(), "damaged", "cannot be read"),
    "a wrong size": (
        lambda path: os.truncate(path / "records.arrays", 7),
        "damaged",
        "has 7 bytes",
    ),
    "a wrong hash": (
        lambda path: flip_a_bit(path / "records.json"),
        "damaged",
        "is not what was published",
    ),
    "a newer format": (raise_format, "unsupported", "needs an update"),
    "a cut manifest": (cut_manifest, "damaged", "is not a manifest"),
    "no manifest": (lambda path: (path / "manifest.json").unlink(), "damaged", "cannot be read"),
    "no folder": (shutil.rmtree, "damaged", "cannot be read"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_snapshot_is_refused_until_it_is_repaired(
    damage: str,
    artifacts: Path,
    manager: SnapshotManager,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    apply_damage, code, message = DAMAGES[damage]
    old = publish(artifacts, "old")
    manager.open()
    new = publish(artifacts, "new")
    shutil.copytree(new, tmp_path / "whole")
    apply_damage(new)
    for _ in range(3):
        manager.poll()
    assert manager.current().id == old.name
    refusal = manager.refusal
    assert refusal is not None
    assert refusal.code == f"snapshot_{code}"
    assert message in str(refusal)
    remedy = "needs an update" if damage == "a newer format" else "rebuild it with"
    assert remedy in str(refusal)
    assert (manager.refusals, manager.swaps) == (1, 0)
    assert caplog.messages == [f"still serving {old.name}: {refusal}"]
    assert mapped(new) == []

    shutil.rmtree(new, ignore_errors=True)
    (tmp_path / "whole").rename(new)
    manager.poll()
    assert (manager.current().id, manager.refusal) == (new.name, None)
    assert (manager.refusals, manager.swaps) == (1, 1)


def test_a_served_snapshot_that_a_build_replaces_is_opened_again(
    artifacts: Path, manager: SnapshotManager
) -> None:
    records = publish(artifacts, "a") / "records.json"
    manager.open()
    manager.poll()
    opened = manager.current()
    flip_a_bit(records)
    publish(artifacts, "a")
    assert opened.find("a") is not None, "what is open stays readable"
    manager.poll()
    assert manager.current() is not opened
    assert (manager.current().id, manager.swaps, manager.refusal) == (opened.id, 1, None)


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("name", ["records.json", "services.arrays", "index.arrays"])
def test_the_watcher_serves_the_folder_that_replaces_a_damaged_one(
    name: str, artifacts: Path, manager: SnapshotManager
) -> None:
    published = publish(artifacts, "a")
    manager.start()
    eventually(lambda: serves(manager, "a"))
    flip_a_bit(published / name)
    publish(artifacts, "a")
    eventually(lambda: (manager.swaps, manager.refusal) == (1, None))
    assert manager.current().id == published.name
    eventually(lambda: not any("(deleted)" in path for path in mapped(artifacts)))


@pytest.mark.usefixtures("hurried")
def test_a_snapshot_that_is_repaired_in_place_is_swapped_in(
    artifacts: Path, manager: SnapshotManager
) -> None:
    publish(artifacts, "old")
    manager.open()
    records = publish(artifacts, "new") / "records.json"
    flip_a_bit(records)
    manager.start()
    eventually(lambda: manager.refusal is not None)
    flip_a_bit(records)
    eventually(lambda: serves(manager, "new"))
    eventually(lambda: manager.refusal is None)


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EMFILE, "Too many open files"),
        MemoryError(),
        RuntimeError("can't start new thread"),
    ],
)
def test_a_swap_that_fails_with_a_transient_error_is_retried(
    error: Exception, artifacts: Path, manager: SnapshotManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(artifacts, "old")
    manager.open()
    publish(artifacts, "new")
    attempts = 0

    def fail(*_: object) -> None:
        nonlocal attempts
        attempts += 1
        raise error

    with monkeypatch.context() as scarce:
        scarce.setattr(hashlib, "file_digest", fail)
        manager.start()
        eventually(lambda: attempts > 0)
        assert serves(manager, "old")
    eventually(lambda: serves(manager, "new"))
    eventually(lambda: manager.refusal is None)


def test_a_swap_that_fails_is_retried_every_half_a_minute_at_least(
    artifacts: Path, manager: SnapshotManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(artifacts, "old")
    manager.open()
    publish(artifacts, "new")
    attempts, now = 0, time.monotonic()

    def fail(*_: object) -> None:
        nonlocal attempts
        attempts += 1
        raise MemoryError

    monkeypatch.setattr("service.snapshot.manager.open_served", fail)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for _ in range(8):
        manager.poll()
        now += 30
    assert attempts == 8


@pytest.mark.usefixtures("hurried")
@pytest.mark.usefixtures("hurried")
def test_opening_the_first_snapshot_is_retried_after_a_memory_error(
    artifacts: Path, manager: SnapshotManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    publish(artifacts, "a")
    with monkeypatch.context() as scarce:
        scarce.setattr("mmap.mmap", fail)
        manager.open()
        with pytest.raises(SnapshotUnavailable):
            manager.current()
    manager.start()
    eventually(lambda: serves(manager, "a"))


def test_starting_the_watcher_can_be_retried(
    artifacts: Path, manager: SnapshotManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("can't start new thread")

    publish(artifacts, "a")
    with monkeypatch.context() as scarce:
        scarce.setattr(threading.Thread, "start", fail)
        manager.start()
    manager.start()
    eventually(lambda: serves(manager, "a"))


def test_a_first_snapshot_with_a_wrong_hash_is_not_opened(
    artifacts: Path, manager: SnapshotManager
) -> None:
    published = publish(artifacts, "a")
    flip_a_bit(published / "summaries.arrays")
    manager.open()
    assert "is not what was published" in str(manager.refusal)
    with pytest.raises(SnapshotDamaged):
        manager.current()
    assert mapped(artifacts) == []

    publish(artifacts, "a")  # the build replaces the damaged snapshot
    manager.poll()
    assert (manager.current().id, manager.refusal) == (published.name, None)


def test_a_later_build_is_not_opened_in_place_of_a_damaged_one(
    artifacts: Path, manager: SnapshotManager
) -> None:
    before, rolled_back = publish(artifacts, "a"), publish(artifacts, "b")
    assert main(["rollback", str(artifacts)]) == 0
    flip_a_bit(before / "records.json")
    manager.open()
    assert rolled_back.exists()
    with pytest.raises(SnapshotDamaged):
        manager.current()


@pytest.mark.parametrize("damaged", [1, 2])
def test_the_newest_intact_snapshot_is_opened_when_the_published_one_is_damaged(
    damaged: int, artifacts: Path, manager: SnapshotManager
) -> None:
    folders = [publish(artifacts, name) for name in "abc"]
    *_, before = folders[:-damaged]
    for each in folders[-damaged:]:
        (each / "manifest.json").unlink()
    manager.open()
    assert manager.current().id == before.name
    assert "cannot be read" in str(manager.refusal)
    assert manager.refusals == 1
    manager.poll()
    assert manager.current().id == before.name
    newest = publish(artifacts, "e")
    manager.poll()
    assert (manager.current().id, manager.refusal) == (newest.name, None)


def test_a_rolled_back_snapshot_is_not_opened_in_place_of_a_damaged_one(
    artifacts: Path, manager: SnapshotManager
) -> None:
    before, withdrawn = publish(artifacts, "a"), publish(artifacts, "b")
    assert main(["rollback", str(artifacts)]) == 0
    (before / "manifest.json").unlink()
    manager.open()
    assert withdrawn.exists()
    with pytest.raises(SnapshotDamaged):
        manager.current()


def test_a_snapshot_that_the_published_one_replaced_is_opened_though_it_was_built_later(
    artifacts: Path, build: Build, manager: SnapshotManager
) -> None:
    published = []
    for name in "aba":
        assert build([service(name)]) == 0
        published.append(current(artifacts))
    assert published[2] == published[0]
    flip_a_bit(folder(artifacts) / "records.json")
    manager.open()
    assert (manager.current().id, type(manager.refusal)) == (published[1], SnapshotDamaged)
    assert build([service("a")]) == 0
    manager.poll()
    assert (manager.current().id, manager.refusal) == (published[0], None)


@pytest.mark.parametrize("is_withdrawn", [False, True])
@pytest.mark.parametrize("content", [b"", b"\xff"])
def test_where_current_is_damaged_the_newest_snapshot_that_is_not_withdrawn_is_opened(
    content: bytes, is_withdrawn: bool, artifacts: Path, manager: SnapshotManager
) -> None:
    for name in "abc":
        publish(artifacts, name)
    if is_withdrawn:
        assert main(["rollback", str(artifacts)]) == 0
    path, published = artifacts / "CURRENT", current(artifacts)
    modified = path.stat().st_mtime_ns
    path.write_bytes(content)
    os.utime(path, ns=(modified, modified))  # as where the disk is at fault
    manager.open()
    manager.poll()
    assert manager.current().id == published
    assert (manager.refusals, "CURRENT" in str(manager.refusal)) == (1, True)
    path.write_text(published)
    manager.poll()
    assert (manager.current().id, manager.refusal, manager.swaps) == (published, None, 0)


def test_a_build_without_changes_updates_checked_at(
    artifacts: Path, build: Build, manager: SnapshotManager
) -> None:
    assert build([service("a")]) == 0
    os.utime(artifacts / "CURRENT", (10**9, 10**9))
    manager.open()
    opened = manager.current()
    assert manager.checked_at(opened).isoformat() == "2001-09-09T01:46:40+00:00"
    assert build([service("a")]) == 0
    manager.poll()
    assert manager.current() is opened
    assert manager.checked_at(opened) > opened.manifest.built_at
    assert manager.swaps == 0
    assert build([service("b")]) == 0
    manager.poll()
    assert manager.checked_at(opened) == opened.checked_at


@pytest.mark.usefixtures("hurried")
@pytest.mark.usefixtures("hurried")
def test_the_watcher_can_be_stopped_and_started_again(
    artifacts: Path, manager: SnapshotManager
) -> None:
    publish(artifacts, "a")
    before = set(threading.enumerate())
    for name in ("b", "c"):
        manager.start()
        manager.start()
        assert len(set(threading.enumerate()) - before) == 1
        publish(artifacts, name)
        eventually(lambda name=name: serves(manager, name))  # type: ignore[misc]  # mypy does not infer lambdas with defaults
        manager.stop()
        assert set(threading.enumerate()) <= before
    manager.stop()


def test_the_watcher_ends_with_its_manager(artifacts: Path) -> None:
    publish(artifacts, "a")
    before = set(threading.enumerate())
    managers = [SnapshotManager(artifacts)]
    managers[0].start()
    eventually(lambda: serves(managers[0], "a"))
    managers.clear()
    eventually(lambda: set(threading.enumerate()) <= before)


def test_unreadable_listings_of_a_folder_hold_no_swap_up(
    artifacts: Path, build: Build, manager: SnapshotManager, caplog: pytest.LogCaptureFixture
) -> None:
    assert build([service("a")], whole=True) == 0
    kept = folder(artifacts)
    manager.open()
    manager.poll()
    for path in (kept / "manifest.json", artifacts / "downloads" / f"{kept.name}.json"):
        path.write_text('{"x":' + "[" * 100_000)
    publish(artifacts, "b")
    manager.poll()
    assert serves(manager, "b")
    assert "Traceback" not in caplog.text


def test_an_intact_snapshot_that_is_published_again_is_not_opened_again(
    artifacts: Path, manager: SnapshotManager
) -> None:
    publish(artifacts, "a")
    manager.open()
    manager.poll()
    served = manager.opened
    flip_a_bit(publish(artifacts, "b") / "records.json")
    manager.poll()
    assert manager.refusals == 1
    assert main(["rollback", str(artifacts)]) == 0
    manager.poll()
    assert manager.refusal is None
    assert manager.opened is served
    assert manager.swaps == 0
