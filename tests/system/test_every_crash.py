"""Power cuts: whatever of a publication has reached the disk, the old state is found or the new."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from service.schema.values import EPOCH
from service.snapshot.manifest import MANIFEST
from service.snapshot.publication import SNAPSHOTS, read_current
from tests.support.artifacts import flip_a_bit, folder
from tests.support.crash import (
    EMPTY,
    THREADS,
    Disk,
    Recorder,
    Recording,
    Sync,
    Tree,
    Write,
    lay,
)
from tests.support.publishing import (
    ARTIFACTS,
    BUCKET,
    Found,
    Publishing,
    files_of_bucket,
    look,
    look_at_bucket,
    removing_at_once,
)


@dataclass(frozen=True, eq=False)
class Part:
    """A folder that is published to.

    read: returns what is found there, or raises
    allowed: what may be found, first that of before and last that of after
    relevant: returns the files that are read, all by default
    """

    name: str
    read: Callable[[Path], object]
    allowed: Sequence[object]
    relevant: Callable[[Tree, Path], Tree] = lambda tree, _: tree


class Scenario:
    """A recorded publication, whose crashes are checked."""

    def __init__(self, place: Path, recording: Recording, *parts: Part) -> None:
        self.operations = recording.operations
        self.parts = list(parts)
        self._place, self._recording = place, recording
        self._found: dict[tuple[Part, frozenset[object]], object] = {}

    def failures(self, removed: int | None = None) -> Iterator[str]:
        """Yield states that crashes leave and that are not allowed.

        With `removed` the recording lacks this operation: only crashes after its place are tried,
        the last instant first.
        """
        operations = list(self.operations)
        if removed is not None:
            del operations[removed]
            disk = Disk(self._recording)
            for operation in operations:
                disk.apply(operation)
            yield from self._check(disk, len(operations), is_over=True)
        disk = Disk(self._recording)
        for number, operation in enumerate(operations):
            is_changed = disk.apply(operation)
            is_over = number == len(operations) - 1
            if (is_changed or is_over) and (removed is None or removed <= number):
                yield from self._check(disk, number, is_over=is_over)

    @property
    def states(self) -> int:
        """The number of different states that were read."""
        return len(self._found)

    def is_empty(self, node: int) -> bool:
        """Return whether a file never had a content that could be lost."""
        writes = [each for each in self.operations if isinstance(each, Write)]
        digests = {each.version.digest for each in writes if each.target == node}
        return digests == {EMPTY.digest}

    def _check(self, disk: Disk, number: int, *, is_over: bool) -> Iterator[str]:
        for trees in disk.crashes():
            for part in self.parts:
                found = self._read(part, trees)
                if found not in (part.allowed[-1:] if is_over else part.allowed):
                    yield f"{part.name}: {found} after {number} operations"

    def _read(self, part: Part, trees: Mapping[str, Tree]) -> object:
        contents = self._recording.contents
        files = part.relevant(trees.get(part.name, {}), contents)
        key = part, frozenset(files.items())
        if key not in self._found:
            shutil.rmtree(self._place, ignore_errors=True)
            lay(files, contents, self._place)
            try:
                self._found[key] = part.read(self._place)
            except Exception as error:  # noqa: BLE001  # whatever cannot be read is a failure
                self._found[key] = repr(error)
        return self._found[key]


def record(
    publishing: Publishing, act: Callable[[], None], between: Callable[[Found, Found], Found]
) -> Scenario:
    """Record an act; `between` returns what may be found on the way from before to after."""
    before, pushed = look(publishing.artifacts), look_at_bucket(publishing.bucket)
    last = EPOCH if before == Found() else read_current(publishing.artifacts).checked_at
    recording = Recorder(publishing.root, publishing.contents).record(act)
    after = look(publishing.artifacts)
    assert isinstance(after, Found)
    found = before if isinstance(before, Found) else after._replace(checked_at=last)
    artifacts = Part(ARTIFACTS, look, (before, between(found, after), after))
    allowed = pushed, look_at_bucket(publishing.bucket)
    bucket = Part(BUCKET, look_at_bucket, allowed, files_of_bucket)
    return Scenario(publishing.folder / "replayed", recording, artifacts, bucket)


def pointed_last(before: Found, after: Found) -> Found:
    """Return what may be found during a build, which replaces the pointer last."""
    return after._replace(pointed=before.pointed)


def pointed_first(before: Found, after: Found) -> Found:
    """Return what may be found during a rollback: no pointer names what CURRENT withdrew."""
    return before._replace(pointed=after.pointed)


def checked_last(before: Found, _after: Found) -> Found:
    """Return what may be found once the served snapshot is mended: CURRENT has the old time."""
    return before


def first_build(publishing: Publishing) -> Scenario:
    return record(publishing, partial(publishing.build, "a"), pointed_last)


def build_and_push(publishing: Publishing) -> Scenario:
    options = ("--keep", "1", "--publish", publishing.bucket.as_uri())
    publishing.build("a", *options)
    with removing_at_once():
        return record(publishing, partial(publishing.build, "b", *options), pointed_last)


def rollback_and_first_push(publishing: Publishing) -> Scenario:
    for edition in ("a", "b"):
        publishing.build(edition, "--no-downloads")
    roll_back = partial(publishing.roll_back, "--publish", publishing.bucket.as_uri())
    return record(publishing, roll_back, pointed_first)


def rollback_of_a_pointer(publishing: Publishing) -> Scenario:
    publishing.build("a", "--no-downloads")
    publishing.build("b")
    return record(publishing, publishing.roll_back, pointed_first)


def mended_kept_snapshot(publishing: Publishing) -> Scenario:
    publishing.build("a")
    damaged = folder(publishing.artifacts)
    publishing.build("b")
    damage(damaged)
    return record(publishing, partial(publishing.build, "a"), pointed_last)


def mended_served_snapshot(publishing: Publishing) -> Scenario:
    publishing.build("a", "--no-downloads")
    snapshot = folder(publishing.artifacts)
    damage(snapshot)
    before = read_files(snapshot)
    scenario = record(publishing, partial(publishing.build, "a", "--no-downloads"), checked_last)
    after = read_files(snapshot)

    def find_spoiled(artifacts: Path) -> list[str]:
        files = read_files(artifacts / SNAPSHOTS / snapshot.name)
        return [
            name
            for name in before.keys() | after.keys()
            if files.get(name) not in (before.get(name), after[name])
        ]

    scenario.parts.append(Part(ARTIFACTS, find_spoiled, ([],)))
    return scenario


def damage(snapshot: Path) -> None:
    """Damage, truncate and remove files of a snapshot."""
    (snapshot / MANIFEST).unlink()
    files = sorted(path for path in snapshot.rglob("*") if path.is_file() and path.stat().st_size)
    flip_a_bit(files[0])
    files[1].write_bytes(files[1].read_bytes()[:-1])
    files[2].unlink()
    folders = [path for path in snapshot.iterdir() if path.is_dir()]
    if folders:
        shutil.rmtree(min(folders, key=lambda path: len(list(path.iterdir()))))


def read_files(folder: Path) -> Mapping[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


SCENARIOS = (
    first_build,
    build_and_push,
    rollback_and_first_push,
    rollback_of_a_pointer,
    mended_kept_snapshot,
    mended_served_snapshot,
)


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Scenario]:
    """Return the recordings."""
    return {
        each.__name__: each(Publishing(tmp_path_factory.mktemp(each.__name__)))
        for each in SCENARIOS
    }


@pytest.mark.parametrize("name", [each.__name__ for each in SCENARIOS])
def test_after_every_crash_the_old_state_is_found_or_the_new_one(
    name: str, scenarios: Mapping[str, Scenario]
) -> None:
    scenario = scenarios[name]
    assert list(scenario.failures()) == []
    assert scenario.states > 5


def test_a_flush_that_is_left_out_is_noticed(scenarios: Mapping[str, Scenario]) -> None:
    """Try each file of the first snapshot, and each line that flushes until a scenario needs it."""
    is_needed: dict[str, bool] = {}
    for name, scenario in sorted(scenarios.items(), key=lambda each: len(each[1].operations)):
        for number, operation in enumerate(scenario.operations):
            if not isinstance(operation, Sync) or scenario.is_empty(operation.target):
                continue
            is_each_needed = operation.site == THREADS and name == first_build.__name__
            if is_needed.get(operation.site) and not is_each_needed:
                continue
            is_noticed = next(scenario.failures(number), "") != ""
            assert is_noticed or not is_each_needed
            is_needed[operation.site] = is_noticed
    assert [site for site, each in is_needed.items() if not each] == []
