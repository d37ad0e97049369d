"""Power cuts: whatever of a publication has reached the disk, the old state is found or the new."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from indexer.intake.kept import FOLDER, LISTINGS, STATE
from service.errors import SnapshotUnavailable
from service.fetch import fetch
from service.schema.values import EPOCH
from service.snapshot.manifest import MANIFEST, read_manifest, verify
from service.snapshot.publication import SNAPSHOTS, read_current
from tests.support.artifacts import flip_a_bit, folder
from tests.support.crash import (
    EMPTY,
    THREADS,
    Disk,
    Entry,
    Recorder,
    Recording,
    Sync,
    Tree,
    Write,
    lay,
)
from tests.support.publishing import ARTIFACTS, Found, Publishing, look

UNTOUCHED, ABSENT, REPLACED = "untouched", "absent", "replaced"


@dataclass(frozen=True, eq=False)
class Part:
    """A state of the artifacts folder that is read after each crash.

    read: returns what is found there, or raises
    allowed: what may be found, first that of before and last that of after
    passing: what may be found during some operations alone
    """

    read: Callable[[Path], object]
    allowed: Sequence[object]
    passing: tuple[object, range] = (None, range(0))


class Scenario:
    """A recorded publication, whose crashes are checked."""

    def __init__(self, place: Path, recording: Recording, *parts: Part) -> None:
        self.operations = recording.operations
        self.parts = list(parts)
        self._place, self._recording = place, recording
        self._found: dict[frozenset[object], Sequence[object]] = {}

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
            for part, found in zip(self.parts, self._read(trees), strict=True):
                passing, numbers = part.passing
                is_passing = found == passing and number in numbers
                if not is_passing and found not in part.allowed[-1 if is_over else 0 :]:
                    yield f"{found} after {number} operations"

    def _read(self, trees: Mapping[str, Tree]) -> Sequence[object]:
        """Return what each part finds, which only reads."""
        files = trees.get(ARTIFACTS, {})
        key = frozenset(files.items())
        if key not in self._found:
            shutil.rmtree(self._place, ignore_errors=True)
            lay(files, self._recording.contents, self._place)
            self._found[key] = [self._read_part(part) for part in self.parts]
        return self._found[key]

    def _read_part(self, part: Part) -> object:
        try:
            return part.read(self._place)
        except Exception as error:  # noqa: BLE001  # whatever cannot be read is a failure
            return repr(error)


def record(
    publishing: Publishing,
    act: Callable[[], object],
    between: Callable[[Found, Found], Found],
    *pruned: str,
) -> Scenario:
    """Record an act; `between` returns what may be found on the way from before to after.

    Every snapshot that was whole before is whole after each crash, but for the pruned ones.
    """
    artifacts = publishing.artifacts
    before = look(artifacts)
    kept = find_whole(artifacts) - {*pruned}
    accepted_before = accepted_sources(artifacts)
    last = EPOCH if before == Found() else read_current(artifacts).checked_at
    recording = Recorder(publishing.root, publishing.contents).record(act)
    after = look(artifacts)
    assert isinstance(after, Found)
    assert after.id in find_whole(artifacts)
    found = before if isinstance(before, Found) else after._replace(checked_at=last)
    published = Part(look, (before, between(found, after), after))
    lost = Part(lambda place: kept - find_whole(place), (set(),))
    parts = [published, lost]
    for name, accepted in accepted_sources(artifacts).items():
        earlier = accepted_before.get(name, (b"", b""))
        states = (earlier, (earlier[0], accepted[1]), accepted)
        parts.append(Part(partial(accepted_source, name), states))
    return Scenario(publishing.folder / "replayed", recording, *parts)


def accepted_sources(artifacts: Path) -> dict[str, tuple[bytes, bytes]]:
    """Return what is kept of the accepted sources, by the names of their folders."""
    folders = [path.name for path in (artifacts / FOLDER).glob("*")]
    return {name: accepted_source(name, artifacts) for name in folders}


def accepted_source(name: str, artifacts: Path) -> tuple[bytes, bytes]:
    """Return the state and the listings of an accepted source, empty where there are none."""
    paths = [artifacts / FOLDER / name / file for file in (STATE, LISTINGS)]
    state, listings = (path.read_bytes() if path.exists() else b"" for path in paths)
    return state, listings


def find_whole(artifacts: Path) -> set[str]:
    """Return the ids of the snapshots that are whole."""
    whole = set()
    for path in (artifacts / SNAPSHOTS).glob("*"):
        try:
            whole.add(verify(path).id)
        except SnapshotUnavailable:
            continue
    return whole


def offered_last(before: Found, after: Found) -> Found:
    """Return what may be found during a build, which names its downloads last."""
    return after._replace(offered=before.offered)


def offered_first(before: Found, after: Found) -> Found:
    """Return what may be found during a rollback: no copy gets what is rolled back."""
    return before._replace(offered=after.offered)


def checked_last(before: Found, _after: Found) -> Found:
    """Return what may be found once the served snapshot is replaced: CURRENT has the old time."""
    return before


def first_build(publishing: Publishing) -> Scenario:
    def newest(_: Found, after: Found) -> Found:
        """Return what is found without CURRENT: the newest snapshot, and nothing to copy."""
        built_at = read_manifest(folder(publishing.artifacts)).built_at
        return Found(after.id, built_at)

    scenario = record(publishing, partial(publishing.build, "a"), newest)
    published, *others = scenario.parts
    *before, after = published.allowed
    assert isinstance(after, Found)
    allowed = (*before, after._replace(offered=""), after)
    scenario.parts = [replace(published, allowed=allowed), *others]
    return scenario


def build_that_prunes(publishing: Publishing) -> Scenario:
    oldest = publishing.build("a")
    publishing.build("b")
    build = partial(publishing.build, "c", "--keep", "2")
    return record(publishing, build, offered_last, oldest)


def build_after_a_denial(publishing: Publishing) -> Scenario:
    publishing.build("a")
    build = partial(publishing.build, "b", "--deny", "id:s0")
    scenario = record(publishing, build, offered_last)
    left = {path.name.partition(".")[0] for path in (publishing.artifacts / "downloads").iterdir()}
    assert left == {folder(publishing.artifacts).name, "current"}
    return scenario


def build_without_downloads(publishing: Publishing) -> Scenario:
    publishing.build("a")
    return record(publishing, partial(publishing.build, "b", "--no-downloads"), offered_last)


def rollback_that_makes_downloads(publishing: Publishing) -> Scenario:
    publishing.build("a", "--no-downloads")
    publishing.build("b")
    return record(publishing, publishing.roll_back, offered_first)


def build_of_a_kept_snapshot(publishing: Publishing) -> Scenario:
    for edition in "ab":
        publishing.build(edition)
    return record(publishing, partial(publishing.build, "a"), offered_last)


def replaced_kept_snapshot(publishing: Publishing) -> Scenario:
    publishing.build("a")
    damaged = folder(publishing.artifacts)
    publishing.build("b")
    damage(damaged)
    return record(publishing, partial(publishing.build, "a"), offered_last)


def replaced_served_snapshot(publishing: Publishing) -> Scenario:
    publishing.build("b")
    publishing.build("a")
    snapshot = folder(publishing.artifacts)
    damage(snapshot)
    before = read_files(snapshot)
    scenario = record(publishing, partial(publishing.build, "a"), checked_last)
    after = read_files(snapshot)

    def find_damaged(artifacts: Path) -> object:
        files = read_files(artifacts / SNAPSHOTS / snapshot.name)
        states = {UNTOUCHED: before, ABSENT: {}, REPLACED: after}
        names = [name for name, state in states.items() if files == state]
        return names[0] if names else sorted(files)

    renames = [
        number
        for number, each in enumerate(scenario.operations)
        if isinstance(each, Entry)
        and snapshot.name in (each.name, each.source and each.source[1])
        and each.source is not None
    ]
    away, back, *others = renames
    assert others == []
    parent = scenario.operations[back].target
    flushed = next(
        number
        for number, each in enumerate(scenario.operations)
        if number > back and isinstance(each, Sync) and each.target == parent
    )
    passing = ABSENT, range(away, flushed)
    scenario.parts.append(Part(find_damaged, (UNTOUCHED, REPLACED), passing))
    return scenario


def fetched_copy(publishing: Publishing) -> Scenario:
    with publishing.origin("a") as url:
        fetch(url, publishing.artifacts)
    with publishing.origin("b") as url:
        return record(publishing, partial(fetch, url, publishing.artifacts), offered_last)


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
    build_that_prunes,
    build_after_a_denial,
    build_without_downloads,
    build_of_a_kept_snapshot,
    rollback_that_makes_downloads,
    replaced_kept_snapshot,
    replaced_served_snapshot,
    fetched_copy,
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
