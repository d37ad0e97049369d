"""Every state of a disk that a power cut can leave: file operations, recorded and replayed.

The content of a file is durable once the file is flushed, an entry or a rename once its folder is.
Any operation that is not durable may have reached the disk: the replay tries none, all, each alone,
all but each, and all with the last write halved. The operations on a staged folder count as one,
because no reader opens the folder before it is renamed.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

import indexer
import service

STAGING = {"staging", "incoming"}
"""The names of folders in which files and folders are made, and which no reader opens."""
PACKAGES = (*service.__path__, *indexer.__path__)
"""Where the program is, also if a wheel is tested."""
DURABLE = "arrays/files.py"
THREADS = "threads"


class Version(NamedTuple):
    """The content of a file by its SHA-256, and its time in nanoseconds."""

    digest: str
    modified: int


class Entry(NamedTuple):
    """A name in a folder gets another node, or none; of a rename, the source loses its name."""

    target: int
    name: str
    node: int | None
    source: tuple[int, str] | None
    unit: object


class Write(NamedTuple):
    """A file gets another content."""

    target: int
    version: Version
    unit: object


class Sync(NamedTuple):
    """A file or a folder is flushed, by a line of the program."""

    target: int
    site: str


T = TypeVar("T")
Operation = Entry | Write | Sync
ROOT_NODE = 1
EMPTY = Version(hashlib.sha256(b"").hexdigest(), 0)
Tree = Mapping[str, Version | None]
"""Files by their paths, and folders, whose paths end with a slash."""


class Recording(NamedTuple):
    """The operations of an act, and those that make the disk as it was before.

    contents: a folder with the contents of all files
    folders: the nodes that are folders
    """

    contents: Path
    folders: set[int]
    before: Sequence[Operation]
    operations: Sequence[Operation]


class Node:
    """A file or a folder as it was last seen."""

    def __init__(self, number: int, inode: int, *, is_folder: bool) -> None:
        self.number = number
        self.inode = inode
        self.entries: dict[str, Node] | None = {} if is_folder else None
        self.seen: tuple[int, int] | None = None


class Recorder:
    """Records what this process does to the files below a folder, by whatever means.

    Patches flushing and renaming. Scans the folder at each such call for everything else, as files
    are also written by other processes and by C.
    """

    def __init__(self, root: Path, contents: Path) -> None:
        self._root, self._contents = root, contents
        self._operations: list[Operation] = []
        self._folders: set[int] = set()
        self._count = 0
        self._lock = threading.Lock()
        keep(contents, b"", EMPTY.modified)
        self._tree = self._make_node(root.stat())

    def record(self, act: Callable[[], object]) -> Recording:
        """Return what an act does."""
        self._scan(self._tree, self._root, None)
        before, self._operations = self._operations, []
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(os, "fsync", self._sync)
            for name in ("rename", "replace"):
                monkeypatch.setattr(os, name, self._renaming(getattr(os, name)))
            act()
        self._scan(self._tree, self._root, None)
        return Recording(self._contents, self._folders, before, self._operations)

    def _sync(self, descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        with self._lock:
            self._scan(self._tree, self._root, None)
            node = self._find(path)
            if node is not None:
                self._operations.append(Sync(node.number, _site()))

    def _renaming(self, rename: Callable[..., None]) -> Callable[..., None]:
        def record(source: Any, target: Any) -> None:
            old, new = Path(source), Path(target)
            with self._lock:
                self._scan(self._tree, self._root, None)
                rename(source, target)
                folders = self._find(old.parent), self._find(new.parent)
                if folders[0] is None or folders[1] is None:
                    return
                before, after = folders[0].entries, folders[1].entries
                assert before is not None
                assert after is not None
                node = after[new.name] = before.pop(old.name)
                moved = folders[0].number, old.name
                unit = len(self._operations)
                operation = Entry(folders[1].number, new.name, node.number, moved, unit)
                self._operations.append(operation)

        return record

    def _find(self, path: Path) -> Node | None:
        if not path.is_relative_to(self._root):
            return None
        node = self._tree
        for name in path.relative_to(self._root).parts:
            assert node.entries is not None
            if name not in node.entries:
                return None
            node = node.entries[name]
        return node

    def _scan(self, folder: Node, path: Path, staged: str | None) -> None:
        """Record how a folder differs from what was seen; `staged` names what is staged here."""
        assert folder.entries is not None
        found = {entry.name: entry for entry in os.scandir(path)}
        for name in folder.entries.keys() - found.keys():
            del folder.entries[name]
            self._name(folder, name, None, staged)
        for name, entry in sorted(found.items()):
            if path.name in STAGING:
                staged = f"{path}/{name}"
            state = entry.stat(follow_symlinks=False)
            node = folder.entries.get(name)
            if node is None or node.inode != state.st_ino:
                node = folder.entries[name] = self._make_node(state)
                self._name(folder, name, node.number, staged)
            if node.entries is not None:
                self._scan(node, Path(entry.path), staged)
            elif node.seen != (seen := (state.st_size, state.st_mtime_ns)):
                node.seen = seen
                version = keep(self._contents, Path(entry.path).read_bytes(), state.st_mtime_ns)
                unit = staged or len(self._operations)
                self._operations.append(Write(node.number, version, unit))

    def _name(self, folder: Node, name: str, node: int | None, staged: str | None) -> None:
        unit = staged or len(self._operations)
        self._operations.append(Entry(folder.number, name, node, None, unit))

    def _make_node(self, state: os.stat_result) -> Node:
        self._count += 1
        is_folder = stat.S_ISDIR(state.st_mode)
        if is_folder:
            self._folders.add(self._count)
        return Node(self._count, state.st_ino, is_folder=is_folder)


def _site() -> str:
    """Return the line of the program that asked for a flush."""
    frame = inspect.currentframe()
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(PACKAGES) and not path.endswith(DURABLE):
            return f"{path}:{frame.f_lineno}"
        frame = frame.f_back
    return THREADS


def keep(contents: Path, content: bytes, modified: int) -> Version:
    """Keep a content under the name of its hash and time, with that time."""
    version = Version(hashlib.sha256(content).hexdigest(), modified)
    path = contents / name_of(version)
    if not path.exists():
        path.write_bytes(content)
        os.utime(path, ns=(modified, modified))
    return version


def name_of(version: Version) -> str:
    """Return the name of a kept content."""
    return f"{version.digest}-{version.modified}"


class Disk:
    """A disk on which a recording is replayed."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._entries: dict[int, dict[str, int]] = {}
        self._versions: dict[int, Version] = {}
        self._pending: list[Entry | Write] = []
        for operation in recording.before:
            assert not isinstance(operation, Sync)
            _commit(operation, self._entries, self._versions)

    def apply(self, operation: Operation) -> bool:
        """Go on by one operation; return whether readers may find another state than before."""
        if not isinstance(operation, Sync):
            self._pending.append(operation)
            return not _is_staged(operation)
        pending, self._pending = self._pending, []
        is_changed = False
        for each in pending:
            if each.target == operation.target or _source(each) == operation.target:
                _commit(each, self._entries, self._versions)
                is_changed |= not _is_staged(each)
            else:
                self._pending.append(each)
        return is_changed

    def crashes(self) -> Iterator[Mapping[str, Tree]]:
        """Yield what a power cut now may leave in each folder."""
        pending = self._pending
        for units in choices([each.unit for each in pending]):
            chosen = set(units)
            yield self._read([each for each in pending if each.unit in chosen])
        writes = [each for each in pending if isinstance(each, Write)]
        if writes:
            half = writes[-1]._replace(version=self._halve(writes[-1].version))
            yield self._read([half if each is writes[-1] else each for each in pending])

    def _halve(self, version: Version) -> Version:
        contents = self._recording.contents
        content = (contents / name_of(version)).read_bytes()
        return keep(contents, content[: len(content) // 2], version.modified)

    def _read(self, operations: Sequence[Entry | Write]) -> Mapping[str, Tree]:
        """Return the folders on disk after these of the pending operations."""
        entries, versions = self._entries, self._versions
        if operations:
            changed = {each.target for each in operations} | set(map(_source, operations))
            entries = entries | {each: dict(entries.get(each, {})) for each in changed}
            versions = dict(versions)
            for each in operations:
                _commit(each, entries, versions)
        trees = {}
        for name, node in entries.get(ROOT_NODE, {}).items():
            trees[name] = dict[str, Version | None]()
            self._walk(node, "", entries, versions, trees[name])
        return trees

    def _walk(
        self,
        folder: int,
        path: str,
        entries: Mapping[int, Mapping[str, int]],
        versions: Mapping[int, Version],
        tree: dict[str, Version | None],
    ) -> None:
        for name, node in entries.get(folder, {}).items():
            if name in STAGING:
                continue
            if node in self._recording.folders:
                tree[f"{path}{name}/"] = None
                self._walk(node, f"{path}{name}/", entries, versions, tree)
            else:
                tree[f"{path}{name}"] = versions.get(node, EMPTY)


def choices(pending: Iterable[T]) -> Iterator[Sequence[T]]:
    """Yield which of the operations that are not durable are on disk."""
    every = list(dict.fromkeys(pending))
    yield []
    yield every
    for each in every:
        yield [each]
        yield [other for other in every if other != each]


def lay(tree: Tree, contents: Path, root: Path) -> None:
    """Make the files of a tree in a folder, as links to their contents; folders are first in it."""
    root.mkdir()
    for path, version in tree.items():
        if version is None:
            (root / path).mkdir()
        else:
            os.link(f"{contents}/{name_of(version)}", f"{root}/{path}")


def _is_staged(operation: Entry | Write) -> bool:
    return isinstance(operation.unit, str)


def _source(operation: Entry | Write) -> int:
    """Return the folder that a rename takes a name from; flushing it does as well."""
    if isinstance(operation, Write) or operation.source is None:
        return operation.target
    return operation.source[0]


def _commit(
    operation: Entry | Write,
    entries: dict[int, dict[str, int]],
    versions: dict[int, Version],
) -> None:
    if isinstance(operation, Write):
        versions[operation.target] = operation.version
        return
    if operation.source is not None:
        folder, name = operation.source
        entries.get(folder, {}).pop(name, None)
    names = entries.setdefault(operation.target, {})
    if operation.node is None:
        names.pop(operation.name, None)
    else:
        names[operation.name] = operation.node
