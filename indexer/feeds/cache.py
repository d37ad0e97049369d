"""Cache of feeds between builds: the text of each, and its validators."""

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
from indexer.options import UNUSED_SECONDS, SourceOptions
from service.artifacts.durable import replace_durably, sync
from service.snapshot.manifest import sha256

FORMAT = 3
ENTRY = "entry.json"
MAX_HOST = 64  # characters of the host in the name of a folder
HASH_ROUNDS = 50_000  # some 10 ms

Validator = Annotated[str, Meta(pattern=r"^[ -~]*\Z", max_length=1024)]
"""Text that can be sent in a header."""
Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]


class CacheEntry(Struct):
    """A feed as it was last read.

    sha256: of the text, and the name of its file
    is_lines: whether the text is JSON lines
    is_paged: whether it was read in pages, and is not a plain file
    walked_at: seconds since the epoch at the start of the last complete walk or request
    note: a remark for the operator
    """

    format: int
    sha256: Sha256
    etag: Validator
    last_modified: Validator
    is_lines: bool
    is_paged: bool
    walked_at: float
    note: str

    def conditions(self) -> dict[str, str]:
        """Return the headers of a conditional request."""
        headers = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in headers.items() if value}


class FeedCache:
    """The folder of one feed: texts named by their hashes, and an entry that names one of them.

    The entry is replaced last, by a rename, and always names a complete text. Other texts stay
    until the feed is next read, so that a build can read a text that another build has replaced.
    """

    def __init__(self, cache: Path, url: httpx.URL, source: SourceOptions) -> None:
        self.folder = cache / _folder_name(url, source)

    def path(self, entry: CacheEntry) -> Path:
        """Return the path of the text of an entry."""
        return self.folder / entry.sha256

    def load(self) -> CacheEntry | None:
        """Return the entry, or None if it or its text is missing or damaged; mark it as used."""
        try:
            os.utime(self.folder)
            entry = _decoder.decode((self.folder / ENTRY).read_bytes())
            valid = entry.format == FORMAT and sha256(self.path(entry)) == entry.sha256
        except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
            return None
        return entry if valid else None

    @contextmanager
    def workspace(self, entry: CacheEntry | None) -> Iterator[Path]:
        """Yield a temporary folder; remove everything but the entry and its text first."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in self.folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif entry is None or path.name not in {ENTRY, entry.sha256}:
                path.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder, ignore_cleanup_errors=True) as folder:
            yield Path(folder)

    def store(self, text: Path, entry: CacheEntry) -> None:
        """Move a text from the workspace into the cache and replace the entry."""
        sync(text)
        text.replace(self.path(entry))
        sync(self.folder)
        self.replace_entry(entry, text.with_name(ENTRY))

    def replace_entry(self, entry: CacheEntry, draft: Path) -> None:
        """Replace the entry, written to a draft in the workspace first."""
        replace_durably(self.folder / ENTRY, msgspec.json.encode(entry), draft)


_decoder = msgspec.json.Decoder(CacheEntry)
_folder_pattern = re.compile(r".*-[0-9a-f]{32}")


def remove_unused(cache: Path) -> None:
    """Remove feeds that were not loaded for 30 days; leave folders of other names alone."""
    for folder in cache.iterdir() if cache.is_dir() else ():
        with suppress(OSError):  # another build may remove it at the same time
            unused = time() - folder.stat().st_mtime
            if unused > UNUSED_SECONDS and _folder_pattern.fullmatch(folder.name):
                shutil.rmtree(folder)


def validator(header: str) -> str:
    """Return a header value, or the empty string if it cannot be sent back."""
    try:
        return msgspec.convert(header, Validator)
    except msgspec.ValidationError:
        return ""


def _folder_name(url: httpx.URL, source: SourceOptions) -> str:
    """Name the folder by all that a request says, since two users may receive two feeds.

    The hash is a slow one, so that nobody who sees the name can guess a short secret.
    """
    identity = msgspec.json.encode(
        (
            origin(url),
            url.userinfo.decode(),
            url.raw_path.decode(),
            sorted(source.headers.items()),
            sorted(source.params.items()),
        )
    )
    digest = hashlib.pbkdf2_hmac("sha256", identity, b"ratecard feed", HASH_ROUNDS, 16)
    return f"{origin(url)[1][:MAX_HOST]}-{digest.hex()}"
