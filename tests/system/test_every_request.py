"""Pushes that end at any request: replicas find the old snapshot or the new one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import obstore
import pytest
from obstore.store import MemoryStore

from indexer.publishing import bucket as buckets
from tests.support.artifacts import current
from tests.support.crash import Tree, Version, choices, keep, lay
from tests.support.publishing import Publishing, files_of_bucket, look_at_bucket, removing_at_once

if TYPE_CHECKING:
    from obstore.store import ObjectStore

    from service.publishing.frames import Buffer


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
    assert any(key.startswith("sections/") for key in removed)

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
    needed = {key for key in needed if key.startswith(("sections/", "manifests/"))}
    assert needed
    for key in needed:
        assert set(map(read, requests.trees(without=key))) - {old, new}
