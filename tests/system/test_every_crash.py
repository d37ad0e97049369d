"""Power cuts: whatever of a publication has reached the disk, the old state is found or the new."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import obstore
import pytest
from obstore.store import MemoryStore

from indexer.__main__ import main
from indexer.publishing import bucket as buckets
from indexer.publishing import push
from service.artifacts.downloads import DOWNLOADS, verify_downloads
from service.artifacts.downloads import POINTER as OWN_POINTER
from service.errors import SnapshotDamaged, SnapshotMissing
from service.publishing.frames import decompress_bounded
from service.replicas.failures import FollowingFailed
from service.replicas.origin import POINTER, open_origin
from service.replicas.signatures import decode_pointer
from service.snapshot.manifest import MANIFEST, Manifest, read_manifest, verify
from service.snapshot.publication import EPOCH, SNAPSHOTS, read_current, read_history
from service.snapshot.snapshot import open_snapshot
from tests.support.artifacts import current, flip_a_bit, folder
from tests.support.crash import (
    EMPTY,
    THREADS,
    Disk,
    Recorder,
    Recording,
    Sync,
    Tree,
    Version,
    Write,
    choices,
    keep,
    lay,
    name_of,
)
from tests.support.running import service, write_lines

if TYPE_CHECKING:
    from obstore.store import ObjectStore

    from service.publishing.frames import Buffer

ARTIFACTS, BUCKET = "artifacts", "bucket"
SERVICES = 5
DAMAGED = "the served snapshot is damaged"

_manifest = msgspec.json.Decoder(Manifest)


class Found(NamedTuple):
    """What a service finds in an artifacts folder, and the snapshot that replicas are told of."""

    id: str = ""
    checked_at: datetime | None = None
    history: tuple[str, ...] = ()
    pointed: str = ""


def look(artifacts: Path) -> Found | str:
    """Read an artifacts folder as services do; raises for what is not whole."""
    try:
        snapshot = open_snapshot(artifacts)
        verify(folder(artifacts))
    except SnapshotMissing:
        return Found()
    except SnapshotDamaged:
        return DAMAGED
    history = tuple(each.id for each in read_history(artifacts))
    pointed = ""
    if (artifacts / OWN_POINTER).exists():
        pointer = decode_pointer((artifacts / OWN_POINTER).read_bytes())
        manifest = read_manifest(artifacts / SNAPSHOTS / pointer.id)
        download = verify_downloads(artifacts / DOWNLOADS / pointer.id, manifest)
        assert pointer.manifest == download.manifest
        pointed = pointer.id
    return Found(snapshot.id, read_current(artifacts).checked_at, history, pointed)


def look_at_bucket(bucket: Path) -> str:
    """Read all that the pointer of a bucket names, as replicas do; return what it points to."""
    if not (bucket / POINTER).exists():
        return ""
    origin = open_origin(bucket.as_uri())
    pointer = decode_pointer(origin.pointer())
    for copy in pointer.kept:
        for file in _manifest.decode(origin.manifest(copy.manifest)).files.values():
            packed = (bucket / f"objects/{file.sha256}.zst").read_bytes()
            content = decompress_bounded(packed, file.bytes)
            assert hashlib.sha256(content).hexdigest() == file.sha256
    return pointer.id


def files_of_bucket(tree: Tree, contents: Path) -> Tree:
    """Return the files that the pointer of a bucket leads to."""

    def read(path: str) -> bytes:
        version = tree.get(path)
        return b"" if version is None else (contents / name_of(version)).read_bytes()

    names = [POINTER]
    with suppress(FollowingFailed, msgspec.MsgspecError):
        for copy in decode_pointer(read(POINTER)).kept:
            names.append(f"manifests/{copy.manifest}.json")
            files = _manifest.decode(read(names[-1])).files
            names += [f"objects/{file.sha256}.zst" for file in files.values()]
    return {name: tree[name] for name in names if name in tree}


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
        """Yield what is found after crashes and must not be.

        Without the operation `removed` only crashes after it are tried, the last instant first.
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


class Publishing:
    """Publishes editions of a catalogue, and records one act."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._root, self.contents = folder / "root", folder / "contents"
        self._root.mkdir()
        self.contents.mkdir()
        self.artifacts, self.bucket = self._root / ARTIFACTS, self._root / BUCKET

    def build(self, edition: str, *options: str) -> None:
        """Build an edition."""
        services = [service(f"s{n}", name=f"{n} {edition}") for n in range(SERVICES)]
        source = write_lines(self._folder / f"{edition}.jsonl", services)
        command = ["build", source, "--out", str(self.artifacts), "--jobs", "1", "--no-semantic"]
        assert main([*command, "--quiet", *options]) == 0

    def roll_back(self, *options: str) -> None:
        """Roll back."""
        assert main(["rollback", str(self.artifacts), *options]) == 0

    def record(self, act: Callable[[], None], between: Callable[[Found, Found], Found]) -> Scenario:
        """Record an act; `between` returns what may be found on the way from before to after."""
        before, pushed = look(self.artifacts), look_at_bucket(self.bucket)
        last = EPOCH if before == Found() else read_current(self.artifacts).checked_at
        recording = Recorder(self._root, self.contents).record(act)
        after = look(self.artifacts)
        assert isinstance(after, Found)
        found = before if isinstance(before, Found) else after._replace(checked_at=last)
        artifacts = Part(ARTIFACTS, look, (before, between(found, after), after))
        allowed = pushed, look_at_bucket(self.bucket)
        bucket = Part(BUCKET, look_at_bucket, allowed, files_of_bucket)
        return Scenario(self._folder / "replayed", recording, artifacts, bucket)


def pointed_last(before: Found, after: Found) -> Found:
    """Return what may be found during a build, which replaces the pointer last."""
    return after._replace(pointed=before.pointed)


def pointed_first(before: Found, after: Found) -> Found:
    """Return what may be found during a rollback: no pointer names what CURRENT withdrew."""
    return before._replace(pointed=after.pointed)


def checked_last(before: Found, _after: Found) -> Found:
    """Return what may be found once the served snapshot is mended: CURRENT has the old time."""
    return before


@contextmanager
def removing_at_once() -> Iterator[None]:
    """Have a push remove what no copy needs, however young."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(push, "GARBAGE_AFTER", timedelta(0))
        yield


def first_build(publishing: Publishing) -> Scenario:
    return publishing.record(partial(publishing.build, "a"), pointed_last)


def build_and_push(publishing: Publishing) -> Scenario:
    options = ("--keep", "1", "--publish", publishing.bucket.as_uri())
    publishing.build("a", *options)
    with removing_at_once():
        return publishing.record(partial(publishing.build, "b", *options), pointed_last)


def rollback_and_first_push(publishing: Publishing) -> Scenario:
    for edition in ("a", "b"):
        publishing.build(edition, "--no-downloads")
    roll_back = partial(publishing.roll_back, "--publish", publishing.bucket.as_uri())
    return publishing.record(roll_back, pointed_first)


def rollback_of_a_pointer(publishing: Publishing) -> Scenario:
    publishing.build("a", "--no-downloads")
    publishing.build("b")
    return publishing.record(publishing.roll_back, pointed_first)


def mended_kept_snapshot(publishing: Publishing) -> Scenario:
    publishing.build("a")
    damaged = folder(publishing.artifacts)
    publishing.build("b")
    damage(damaged)
    return publishing.record(partial(publishing.build, "a"), pointed_last)


def mended_served_snapshot(publishing: Publishing) -> Scenario:
    publishing.build("a", "--no-downloads")
    snapshot = folder(publishing.artifacts)
    damage(snapshot)
    before = read_files(snapshot)
    scenario = publishing.record(partial(publishing.build, "a", "--no-downloads"), checked_last)

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
    shutil.rmtree(snapshot / "ecosystem")
    flip_a_bit(snapshot / "records.json")
    (snapshot / "ids.json").write_bytes(b"")
    (snapshot / MANIFEST).unlink()


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


class Requests:
    """Requests that change a store, recorded from their start to their end."""

    def __init__(self, store: ObjectStore, contents: Path) -> None:
        self.operations: list[tuple[str, Version | None, bool]] = []
        """The key, the new content if any, and whether the request has ended."""
        self.before = {
            each["path"]: keep(contents, bytes(obstore.get(store, each["path"]).bytes()), 0)
            for page in obstore.list(store)
            for each in page
        }
        self._contents = contents

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record what this process puts and removes."""
        put, delete = obstore.put, obstore.delete

        def record_put(store: ObjectStore, key: str, content: Buffer, **options: Any) -> None:
            version = keep(self._contents, bytes(content), 0)
            self.operations.append((key, version, False))
            put(store, key, content, **options)
            self.operations.append((key, version, True))

        def record_delete(store: ObjectStore, keys: list[str]) -> None:
            self.operations += [(key, None, False) for key in keys]
            delete(store, keys)
            self.operations += [(key, None, True) for key in keys]

        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(obstore, "put", record_put)
            monkeypatch.setattr(obstore, "delete", record_delete)
            yield

    def trees(self, without: str = "") -> Iterator[Tree]:
        """Yield what a publisher may leave that ends at any instant, but for a request of a key."""
        done: dict[str, Version | None] = dict(self.before)
        pending: dict[str, Version | None] = {}
        for key, version, is_over in self.operations:
            if key == without:
                continue
            if is_over:
                done[key] = pending.pop(key)
            else:
                pending[key] = version
            for chosen in choices(pending):
                tree = done | {each: pending[each] for each in chosen}
                yield {each: version for each, version in tree.items() if version is not None}


def test_after_each_request_of_a_push_replicas_find_the_old_snapshot_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publishing, store = Publishing(tmp_path), MemoryStore()
    monkeypatch.setattr(buckets, "open_store", lambda _: store)
    options = ("--keep", "1", "--publish", "s3://catalogue/prod")
    publishing.build("a", *options)
    requests = Requests(store, publishing.contents)
    old = current(publishing.artifacts)
    with removing_at_once(), requests.recording():
        publishing.build("b", *options)
    new = current(publishing.artifacts)
    removed = [key for key, version, _ in requests.operations if version is None]
    assert any(key.startswith("objects/") for key in removed)

    found: dict[frozenset[object], object] = {}

    def read(tree: Tree) -> object:
        files = files_of_bucket(tree, publishing.contents)
        key = frozenset(files.items())
        if key not in found:
            place = tmp_path / f"bucket-{len(found)}"
            lay(files, publishing.contents, place)
            try:
                found[key] = look_at_bucket(place)
            except Exception as error:  # noqa: BLE001  # whatever cannot be read is a failure
                found[key] = repr(error)
        return found[key]

    states = [read(tree) for tree in requests.trees()]
    assert set(states) == {old, new}
    assert states[-1] == new
    needed = {key for key, version, _ in requests.operations if version is not None}
    needed = {key for key in needed if key.startswith(("objects/", "manifests/"))}
    assert needed
    for key in needed:
        assert set(map(read, requests.trees(without=key))) - {old, new}
