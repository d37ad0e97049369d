"""A bucket or a folder that copies of snapshots are pushed to, over obstore."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

from service.errors import PublishingFailed, without_credentials
from service.publishing.durable import make_folder, sync, write_durably
from service.replicas.origin import POINTER
from service.replicas.store import open_store, reason_of

if TYPE_CHECKING:
    from obstore import PutMode
    from obstore.store import ObjectStore

    from service.publishing.frames import Buffer

LOCK = ".lock"
CLOCK = "clock"
"""The object that is put to read the clock of a store."""
INCOMING = "incoming"
"""The folder of files that are being written."""
FOLLOWED = ("sections", "manifests")
"""The folders that replicas cannot do without."""
WRITABLE = ("s3", "gs", "az", "file")


class StoredObject(NamedTuple):
    """The size of an object, and when it was put."""

    bytes: int
    put_at: datetime


class StoredPointer(NamedTuple):
    """The pointer of a bucket, and what a condition names it by: an entity tag, or a version."""

    content: bytes
    e_tag: str | None = None
    version: str | None = None


class PointerChanged(Exception):
    """Another publisher replaced the pointer after it was read."""


class ObjectBucket:
    """A store as a publisher needs it. Its methods raise PublishingFailed."""

    def __init__(self, url: str, store: ObjectStore) -> None:
        self.name = without_credentials(url)
        self._store = store

    def objects(self) -> dict[str, StoredObject]:
        """Return all objects below the prefix, by key."""
        with self._reporting("cannot be listed"):
            return {
                each["path"]: StoredObject(each["size"], each["last_modified"])
                for page in obstore.list(self._store)
                for each in page
            }

    def get(self, key: str) -> bytes | None:
        """Return a small object, or None where there is none."""
        with self._reporting(f"{key} cannot be read"):
            try:
                return bytes(obstore.get(self._store, key).bytes())
            except FileNotFoundError:
                return None

    def put(self, key: str, content: Buffer) -> None:
        """Put an object, replacing one of its key."""
        with self._reporting(f"{key} cannot be written"):
            obstore.put(self._store, key, content)

    def delete(self, keys: list[str]) -> None:
        """Remove objects."""
        with self._reporting("old objects cannot be removed"):
            obstore.delete(self._store, keys)

    def now(self) -> datetime:
        """Return the time by the clock of the store, which dates its objects."""
        self.put(CLOCK, b"")
        with self._reporting(f"{CLOCK} cannot be read"):
            return obstore.head(self._store, CLOCK)["last_modified"]

    def pointer(self) -> StoredPointer | None:
        """Return the pointer, None before the first publication."""
        with self._reporting(f"{POINTER} cannot be read"):
            try:
                result = obstore.get(self._store, POINTER)
                meta = result.meta
                return StoredPointer(bytes(result.bytes()), meta["e_tag"], meta["version"])
            except FileNotFoundError:
                return None

    def replace_pointer(self, content: bytes, before: StoredPointer | None) -> None:
        """Put the pointer if it still is the one before; raises PointerChanged otherwise."""
        mode: PutMode = "create"
        if before is not None:
            mode = {}
            if before.e_tag is not None:
                mode["e_tag"] = before.e_tag
            if before.version is not None:
                mode["version"] = before.version
        with self._reporting(f"{POINTER} cannot be written"):
            try:
                obstore.put(self._store, POINTER, content, mode=mode, use_multipart=False)
            except (AlreadyExistsError, PreconditionError) as error:
                raise PointerChanged from error

    @contextmanager
    def _reporting(self, fault: str) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError) as error:
            raise PublishingFailed(
                f"{self.name}: {fault}: {reason_of(error)}; what was published stays, and the "
                "next build pushes what is missing"
            ) from error


class Folder(ObjectBucket):
    """A bucket in a folder: a lock and a rename replace the pointer, as no condition can.

    obstore does not flush what it writes to a folder, so that a power cut could leave a pointer to
    objects that are empty.
    """

    def __init__(self, url: str, store: ObjectStore, path: Path) -> None:
        super().__init__(url, store)
        self._path = path

    def objects(self) -> dict[str, StoredObject]:
        """Return all objects in the folder, by key."""
        return {key: each for key, each in super().objects().items() if key != LOCK}

    def put(self, key: str, content: Buffer) -> None:
        """Put an object, on disk before it has its name; `replace_pointer` flushes the names."""
        fresh = self._path / INCOMING / uuid4().hex
        with self._reporting(f"{key} cannot be written"):
            for each in (fresh, self._path / key):
                each.parent.mkdir(exist_ok=True)
            try:
                write_durably(fresh, content)
                fresh.replace(self._path / key)
            finally:
                fresh.unlink(missing_ok=True)

    def pointer(self) -> StoredPointer | None:
        """Return the pointer, None before the first publication."""
        with self._reporting(f"{POINTER} cannot be read"):
            return self._read()

    def replace_pointer(self, content: bytes, before: StoredPointer | None) -> None:
        """Put the pointer if it still is the one before; raises PointerChanged otherwise."""
        with (
            self._reporting(f"{POINTER} cannot be written"),
            (self._path / LOCK).open("a") as lock,
        ):
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self._read() != before:
                raise PointerChanged
            for folder in (*map(self._path.joinpath, FOLLOWED), self._path):
                if folder.is_dir():
                    sync(folder)
            fresh = self._path / f"{POINTER}.new"
            write_durably(fresh, content)
            fresh.replace(self._path / POINTER)
            sync(self._path)

    def _read(self) -> StoredPointer | None:
        try:
            return StoredPointer((self._path / POINTER).read_bytes())
        except FileNotFoundError:
            return None


def open_bucket(url: str) -> ObjectBucket:
    """Open the bucket or folder of a URL for writing; raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in WRITABLE:
        raise ValueError(
            "what is published to must be a URL as s3://bucket/prefix, gs://bucket/prefix, "
            "az://container/prefix or file:///folder"
        )
    if parts.scheme != "file":
        return ObjectBucket(url, open_store(url))
    path = Path(unquote(parts.path))
    if not path.is_absolute() or parts.netloc:
        raise ValueError("a folder to publish to must be named by file:// and its whole path")
    make_folder(path)
    return Folder(url, open_store(url), path)
