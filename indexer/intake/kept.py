"""The folder of each source: its text as it was last read, and the part that was accepted.

Each source has a folder: texts named by their SHA-256, `fetched.json` with the one that was read
last and its validators, and `state.json` with the one that was last published. Each is replaced by
a rename, and texts that neither names are removed later: a crash leaves what was there.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from time import time
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from indexer.intake.findings import MAX_EXAMPLES
from indexer.options import UNUSED_SECONDS, OnError, SourceOptions
from service.arrays.files import make_folder, read_json, replace_durably, sha256, sync
from service.arrays.texts import text_hash
from service.artifacts.publishing import ACCEPTED

FOLDER = "sources"
"""The folder in the artifacts folder."""
FETCHED, STATE, LISTINGS = "fetched.json", "state.json", "listings.msgpack"
FETCHED_FORMAT, FORMAT = 5, 1
LINES_SUFFIX = ".lines"
"""The end of the name of a text whose lines are items, whatever the first one looks like."""
FLOOR = 10  # listings that any source may lose or change
PRICE_RISE = 10  # times the accepted price
HASH_ROUNDS = 50_000  # some 10 ms

_unsafe = re.compile(r"[^A-Za-z0-9._-]+")
_own = re.compile(r".*-[0-9a-f]{16}")

Validator = Annotated[str, Meta(pattern=r"^[ -~]*\Z", max_length=1024)]
"""Text that can be sent in a header."""
TextName = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}(\.lines)?\Z")]


class FetchedText(Struct):
    """The text of a URL as it was last read.

    request: hash of all that a request says, since two users may receive two texts
    text: the name of its file
    is_paged: whether it was read in pages, and is not a plain file
    walked_at: seconds since the epoch at the start of the last complete walk or request
    note: a remark for the operator
    """

    format: int
    request: str
    text: TextName
    etag: Validator
    last_modified: Validator
    is_paged: bool
    walked_at: float
    note: str

    def conditions(self) -> dict[str, str]:
        """Return the headers of a conditional request."""
        headers = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in headers.items() if value}


class AcceptedListings(Struct, array_like=True):
    """The listings of a source: their names, whom they pay, and their prices.

    payees: hashes of the addresses of each, 0 without any
    prices: 0 where none is known
    """

    names: list[str] = []
    payees: list[int] = []
    prices: list[float] = []

    def facts(self) -> dict[str, tuple[int, float]]:
        """Return the payee and the price of each listing by its name, the greatest of several."""
        found: dict[str, tuple[int, float]] = {}
        for name, payee, price in zip(self.names, self.payees, self.prices, strict=True):
            found[name] = max(found.get(name, (0, 0.0)), (payee, price))
        return found

    def add(self, name: str, payees: list[str], price: float) -> None:
        """Add a listing."""
        self.names.append(name)
        self.payees.append(text_hash("\n".join(sorted(payees))) if payees else 0)
        self.prices.append(price)


class AcceptedState(Struct):
    """A source as it was last accepted.

    malformed: share of its records
    copy: name of the copy of its text, empty without one
    """

    format: int
    read_at: datetime
    malformed: float
    copy: str


_listings = msgspec.msgpack.Decoder(AcceptedListings)


class KeptSource:
    """The folder of one source; `state` is None where the source was never accepted."""

    def __init__(self, artifacts: Path, source: SourceOptions) -> None:
        place = source.url or str(Path(source.path).absolute())
        identity = f"{source.name}\n{place}" + ("" if source.is_listed else f"\n{source.kind}")
        digest = hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()
        name = _unsafe.sub("-", source.name)[:64].strip(".-") or "source"
        self.folder = artifacts / FOLDER / f"{name}-{digest[:16]}"
        self._source = source
        state = read_json(self.folder / STATE, AcceptedState)
        self.state = state if state is not None and state.format == FORMAT else None
        with suppress(OSError):
            os.utime(self.folder)

    def fetched(self) -> FetchedText | None:
        """Return the text that was read last, None if it is damaged or of another request."""
        fetched = read_json(self.folder / FETCHED, FetchedText)
        if fetched is None or fetched.format != FETCHED_FORMAT:
            return None
        is_same = fetched.request == hash_request(self._source)
        return fetched if is_same and _is_whole(self.path(fetched)) else None

    def path(self, fetched: FetchedText) -> Path:
        """Return the path of a text."""
        return self.folder / fetched.text

    @contextmanager
    def workspace(self) -> Iterator[Path]:
        """Yield a temporary folder; remove what crashed builds left first."""
        make_folder(self.folder)
        self._clean()
        with tempfile.TemporaryDirectory(dir=self.folder, ignore_cleanup_errors=True) as folder:
            yield Path(folder)

    def store_fetched(self, fetched: FetchedText, text: Path | None = None) -> None:
        """Keep what was read: a text of the workspace, or another time for the one that is kept."""
        if text is not None:
            sync(text)
            text.replace(self.path(fetched))
            sync(self.folder)
        self._replace(FETCHED, msgspec.json.encode(fetched))

    @property
    def copy(self) -> Path | None:
        """The copy of the accepted text, None without one that is whole."""
        if self.state is None or not self.state.copy:
            return None
        path = self.folder / self.state.copy
        return path if _is_whole(path) else None

    def refresh(self, read_at: datetime) -> None:
        """Note that a source was still as it was accepted."""
        if self.state is not None:
            self.state.read_at = read_at
            self._replace(STATE, msgspec.json.encode(self.state))

    def was_empty(self) -> bool:
        """Whether the source was accepted without a listing."""
        return self.state is not None and not self._listings().names

    def find_changes(self, listings: AcceptedListings, allowed: Fraction) -> list[str]:
        """Return how these listings differ too much from the accepted ones, nothing if they do not.

        The share `allowed` of the accepted listings, or FLOOR, may go, change their payee, or cost
        PRICE_RISE times as much.
        """
        accepted, now = self._listings().facts(), listings.facts()
        same = [(name, *accepted[name], *now[name]) for name in accepted if name in now]
        kinds = {
            "are gone": [name for name in accepted if name not in now],
            "pay another address": [
                name for name, payee, _, new_payee, _ in same if payee and new_payee != payee
            ],
            "cost more": [
                name for name, _, price, _, new_price in same if 0 < price * PRICE_RISE <= new_price
            ],
        }
        limit = max(FLOOR, int(allowed * len(accepted)))
        return [
            _describe(kind, names, len(accepted))
            for kind, names in kinds.items()
            if len(names) > limit
        ]

    def store(
        self, path: Path, listings: AcceptedListings, read_at: datetime, malformed: float
    ) -> None:
        """Keep the listings of a source that was published, and a copy of its text if it is used.

        The state is replaced last, so that a crash leaves the earlier copy.
        """
        make_folder(self.folder)
        copy = ""
        if self._source.on_error is OnError.LAST:
            copy = path.name if path.parent == self.folder else self._copy(path)
        self._replace(LISTINGS, msgspec.msgpack.encode(listings))
        state = AcceptedState(FORMAT, read_at, malformed, copy)
        self._replace(STATE, msgspec.json.encode(state))
        self.state = state
        self._clean()

    def _copy(self, path: Path) -> str:
        """Copy a text durably; returns its hash, which is the name of its file."""
        draft = self.folder / "text.new"
        shutil.copyfile(path, draft)
        digest = sha256(draft)
        sync(draft)
        draft.replace(self.folder / digest)
        sync(self.folder)
        return digest

    def _clean(self) -> None:
        """Remove all that neither what was read nor what was accepted names."""
        fetched = read_json(self.folder / FETCHED, FetchedText)
        names = {FETCHED, STATE, LISTINGS, "" if fetched is None else fetched.text}
        names.add("" if self.state is None else self.state.copy)
        for path in self.folder.iterdir():
            if path.name in names:
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def _replace(self, name: str, content: bytes) -> None:
        replace_durably(self.folder / name, content, self.folder / f"{name}.new")

    def _listings(self) -> AcceptedListings:
        try:
            return _listings.decode((self.folder / LISTINGS).read_bytes())
        except (OSError, msgspec.MsgspecError):
            return AcceptedListings()


def _is_whole(path: Path) -> bool:
    """Whether a text has the hash that its name says."""
    try:
        return sha256(path) == path.name.removesuffix(LINES_SUFFIX)
    except OSError:
        return False


def hash_request(source: SourceOptions) -> str:
    """Return a hash of all that decides what a URL gives.

    Where a request may have a secret, the hash is a slow one, so that nobody who sees it can guess
    a short one.
    """
    headers, params = sorted(source.headers.items()), sorted(source.params.items())
    identity = msgspec.json.encode((source.url, source.kind, headers, params))
    is_public = not (headers or params or "?" in source.url or "@" in source.url)
    rounds = 1 if is_public else HASH_ROUNDS
    return hashlib.pbkdf2_hmac("sha256", identity, b"ratecard feed", rounds, 16).hex()


def validator(header: str) -> str:
    """Return a header value, or the empty string if it cannot be sent back."""
    try:
        return msgspec.convert(header, Validator)
    except msgspec.ValidationError:
        return ""


def take_over(artifacts: Path) -> None:
    """Take over what an earlier release accepted, so that the next build is judged against it."""
    with suppress(OSError):  # there is none, or it was taken over
        (artifacts / ACCEPTED).rename(artifacts / FOLDER)


def remove_unused(artifacts: Path) -> None:
    """Remove folders of sources that were not read for 30 days, and none of other names."""
    folder = artifacts / FOLDER
    for each in folder.iterdir() if folder.is_dir() else ():
        with suppress(OSError):
            unused = time() - each.stat().st_mtime
            if unused > UNUSED_SECONDS and _own.fullmatch(each.name):
                shutil.rmtree(each)


def _describe(kind: str, names: list[str], total: int) -> str:
    shown = "".join(f"\n    {name}" for name in names[:MAX_EXAMPLES])
    more = f"\n    and {len(names) - MAX_EXAMPLES:,} more" if len(names) > MAX_EXAMPLES else ""
    return f"{len(names):,} of {total:,} listings {kind}{shown}{more}"
