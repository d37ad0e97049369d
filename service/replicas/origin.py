"""The origin of a replica, read over obstore: a bucket, a folder or another Ratecard.

pointer-<FORMAT>.json           what is published
manifests/<sha256>.json         manifests of copies
sections/<sha256>.json          the sections of the files of the copy whose manifest has the hash
sections/<sha256>.zst           sections by the SHA-256 of their content, one zstd frame each
patches/<from>-<to>.json, .zst  the pieces of the files of one snapshot from another, their frames
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

import msgspec
import obstore
from obstore.exceptions import BaseError, NotModifiedError

from service.artifacts.downloads import PatchIndex, SectionIndex
from service.artifacts.pointer import Patches
from service.errors import FollowingFailed, without_credentials
from service.replicas.store import open_store, reason_of
from service.snapshot.manifest import FORMAT, File

if TYPE_CHECKING:
    from obstore import GetOptions, GetResult
    from obstore.store import ObjectStore

POINTER = f"pointer-{FORMAT}.json"
MAX_POINTER = 1 << 20
MAX_DOCUMENT = 8 << 20
"""Bytes of a manifest, or of a list of sections or pieces: decoding takes several times as many."""
CHUNK = 1 << 20
"""Bytes that are written at a time."""
ATTEMPTS = 3
"""Requests for one object that bring nothing, before it is given up."""
FILE_MISSING = "file_missing"
"""Code of the failure of an origin that lacks an object."""
LOOK = 3600.0
"""Seconds of a look: a few bytes a minute are progress, and would hold the lock for ever."""

T = TypeVar("T")

_sections = msgspec.json.Decoder(SectionIndex)
_patches = msgspec.json.Decoder(PatchIndex)


class Origin:
    """Reads what an origin publishes. Every method raises FollowingFailed, or OSError for the disk.

    A look begins with `pointer`, and fails LOOK seconds later. `name` is the URL without
    credentials.
    """

    def __init__(self, url: str, store: ObjectStore) -> None:
        self.name = without_credentials(url)
        self._store = store
        self._etag: str | None = None
        self._pointer = b""
        self._bytes = 0
        self._counting = threading.Lock()
        self._deadline = inf

    def pointer(self) -> bytes:
        """Return the pointer, asking for it only if it changed."""
        self._deadline = monotonic() + LOOK
        options: GetOptions = {"if_none_match": self._etag} if self._etag else {}
        with self._failures(POINTER):
            try:
                result = obstore.get(self._store, POINTER, options=options)
                content = self._read(result, MAX_POINTER)
            except NotModifiedError:
                return self._pointer
            except FileNotFoundError as error:
                raise FollowingFailed(
                    "pointer_missing",
                    f"{self.name} has no {POINTER}: nothing was published there by this release of "
                    "Ratecard, or the URL is wrong",
                ) from error
        self._etag, self._pointer = result.meta["e_tag"], content
        return content

    def forget_pointer(self) -> None:
        """Ask for the whole pointer next time, as this one was refused or not followed."""
        self._etag = None

    def manifest(self, digest: str) -> bytes:
        """Return the manifest that has a SHA-256."""
        content = self._document(f"manifests/{digest}.json")
        if hashlib.sha256(content).hexdigest() != digest:
            raise FollowingFailed(
                "manifest_refused",
                f"the manifest of {self.name} has not the SHA-256 of the pointer",
            )
        return content

    def sections(self, manifest: str) -> dict[str, list[File]]:
        """Return the sections of each file of the copy that a manifest describes, by path."""
        key = f"sections/{manifest}.json"
        return self._decode(key, self._document(key), _sections).sections

    def patches(self, patches: Patches, target: str) -> PatchIndex | None:
        """Return the list of the pieces of a snapshot that has the SHA-256, None without any."""
        key = f"patches/{patches.base}-{target}.json"
        try:
            content = self._document(key)
        except FollowingFailed as error:
            if error.code == FILE_MISSING:
                return None
            raise
        if hashlib.sha256(content).hexdigest() != patches.index:
            raise FollowingFailed(
                "file_refused", f"{key} of {self.name} has not the SHA-256 of the pointer"
            )
        return self._decode(key, content, _patches)

    def download(self, key: str, place: Path, limit: int) -> None:
        """Fetch an object, from the last byte that is there."""
        failures = 0
        with self._failures(key):
            while True:
                size = place.stat().st_size if place.exists() else 0
                try:
                    self._resume(key, place, size, limit)
                except BaseError:
                    grown = place.exists() and place.stat().st_size > size
                    failures = 0 if grown else failures + 1
                    if failures == ATTEMPTS:
                        raise
                    # The size is asked for if only to learn that the origin answers.
                    if failures and size and obstore.head(self._store, key)["size"] < size:
                        place.unlink()  # another frame stands there now
                else:
                    return

    def take_bytes(self) -> int:
        """Return the bytes that were fetched since the last call."""
        with self._counting:
            count, self._bytes = self._bytes, 0
        return count

    def _resume(self, key: str, place: Path, size: int, limit: int) -> None:
        # The last byte is asked for again: a range that starts at the end of an object is an error.
        offset = max(0, size - 1)
        options: GetOptions = {"range": {"offset": offset}} if offset else {}
        result = obstore.get(self._store, key, options=options)
        self._check_size(key, result.meta["size"], limit)
        with place.open("r+b" if place.exists() else "wb") as file:
            file.seek(offset)
            for chunk in result.stream(CHUNK):
                offset += len(chunk)
                self._check_size(key, offset, limit)
                file.write(chunk)
                self._count(len(chunk))
            file.truncate(offset)

    def _decode(self, key: str, content: bytes, decoder: msgspec.json.Decoder[T]) -> T:
        """Decode a list of sections or pieces; raises FollowingFailed."""
        try:
            return decoder.decode(content)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise FollowingFailed("file_refused", f"{key} of {self.name}: {error}") from error

    def _document(self, key: str) -> bytes:
        """Return a small object."""
        with self._failures(key):
            return self._read(obstore.get(self._store, key), MAX_DOCUMENT)

    def _read(self, result: GetResult, limit: int) -> bytes:
        content = bytearray()
        for chunk in result.stream(CHUNK):
            content += chunk
            self._count(len(chunk))
            self._check_size(result.meta["path"], len(content), limit)
        return bytes(content)

    def _check_size(self, key: str, size: int, limit: int) -> None:
        if size > limit:
            raise FollowingFailed(
                "file_refused", f"{key} of {self.name} is larger than the {limit} bytes expected"
            )

    def _count(self, count: int) -> None:
        """Count bytes that were fetched; raises FollowingFailed after the deadline of the look."""
        with self._counting:
            self._bytes += count
        if monotonic() > self._deadline:
            raise FollowingFailed(
                "origin_unavailable",
                f"{self.name} took longer than {LOOK:.0f} seconds; what was fetched is kept, and "
                "the next look goes on",
            )

    @contextmanager
    def _failures(self, key: str) -> Iterator[None]:
        """Raise FollowingFailed for an object that is missing, and for errors of the store."""
        try:
            yield
        except FileNotFoundError as error:
            raise FollowingFailed(FILE_MISSING, f"{self.name} has no {key}") from error
        except BaseError as error:
            message = f"{self.name}: {reason_of(error)}"
            raise FollowingFailed("origin_unavailable", message) from error


def open_origin(url: str) -> Origin:
    """Open the origin at a URL; raises ValueError."""
    return Origin(url, open_store(url))
