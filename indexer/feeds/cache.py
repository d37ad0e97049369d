"""What is kept of a feed between two builds: its text, and what its server knows it by."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import time
from typing import Annotated

import httpx
import msgspec
from msgspec import Meta, Struct

from indexer.feeds.url import origin
from service.snapshot.manifest import sha256

FORMAT = 1
ENTRY = "entry.json"
LONGEST_HOST = 64
UNUSED_SECONDS = 30 * 24 * 60 * 60

# As it may be sent back in a header.
Validator = Annotated[str, Meta(pattern=r"^[ -~]*\Z", max_length=1024)]
FileName = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]


class Kept(Struct):
    """A feed as it was read last: the hash of its text, which is the name of its file, and more.

    `snapshot` is what the server named in `Ratecard-Snapshot`; `read_at` is in seconds of the
    epoch; `pages` and `items` count one walk, and a plain file is one page with no known items.
    """

    format: int
    sha256: FileName
    etag: Validator
    last_modified: Validator
    snapshot: str
    pages: int
    items: int | None
    read_at: float
    note: str

    def conditions(self) -> dict[str, str]:
        """The headers that ask for the feed only if it changed."""
        asked = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in asked.items() if value}


class FeedCache:
    """The folder of one feed: texts under names that are their hashes, and an entry naming one.

    The entry is replaced last and by one rename, so that it always names a text that is whole. A
    text that it does not name goes when the next walk starts, and not before: the same feed may
    be read twice in one build.
    """

    def __init__(self, cache: Path, url: httpx.URL) -> None:
        self._folder = cache / _name(url)

    def path(self, kept: Kept) -> Path:
        """The file that holds the text of a feed."""
        return self._folder / kept.sha256

    def load(self) -> Kept | None:
        """What is kept, or None where there is nothing whole; either way it counts as used."""
        try:
            os.utime(self._folder)
            kept = _decoder.decode((self._folder / ENTRY).read_bytes())
            whole = kept.format == FORMAT and sha256(self.path(kept)) == kept.sha256
        except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
            return None
        return kept if whole else None

    @contextmanager
    def workspace(self, kept: Kept | None) -> Iterator[Path]:
        """A folder to work in until the feed is read, with the remains of earlier work removed."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in self._folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif kept is None or path.name not in {ENTRY, kept.sha256}:
                path.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(dir=self._folder, ignore_cleanup_errors=True) as folder:
            yield Path(folder)

    def keep(self, text: Path, kept: Kept) -> None:
        """Move a text, whose hash `kept` names, to its place, and make it what is kept."""
        with text.open("rb") as file:
            os.fsync(file.fileno())
        text.replace(self.path(kept))
        _sync(self._folder)
        entry = text.with_name(ENTRY)
        with entry.open("wb") as file:
            file.write(msgspec.json.encode(kept))
            file.flush()
            os.fsync(file.fileno())
        entry.replace(self._folder / ENTRY)
        _sync(self._folder)


_decoder = msgspec.json.Decoder(Kept)
_folder_name = re.compile(r".*-[0-9a-f]{32}")


def remove_unused(cache: Path) -> None:
    """Remove what is kept of feeds that nobody loaded in 30 days, and leave what is not ours.

    When a feed was used is the time of its folder, which a crash within a removal renews: what is
    left is no whole feed, and goes 30 days later.
    """
    for folder in cache.iterdir() if cache.is_dir() else ():
        with suppress(OSError):  # another build removes it, too
            unused = time() - folder.stat().st_mtime
            if unused > UNUSED_SECONDS and _folder_name.fullmatch(folder.name):
                shutil.rmtree(folder)


def validator(header: str) -> str:
    """A header as it may be kept, or nothing where it could not be sent back."""
    try:
        return msgspec.convert(header, Validator)
    except msgspec.ValidationError:
        return ""


def _name(url: httpx.URL) -> str:
    """One name for each address and user, since two users may be given two feeds."""
    known_by = msgspec.json.encode((origin(url), url.username, url.raw_path.decode()))
    host = origin(url)[1][:LONGEST_HOST]
    return f"{host}-{hashlib.sha256(known_by).hexdigest()[:32]}"


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
