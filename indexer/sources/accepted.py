"""Accepted copies: what each source gave when it was last published, and how much of it changed."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Collection
from contextlib import suppress
from datetime import datetime
from fractions import Fraction
from pathlib import Path

import msgspec
from msgspec import Struct

from indexer.options import UNUSED_SECONDS, OnError, Policy, SourceOptions
from indexer.sources.findings import MAX_EXAMPLES
from service.snapshot.manifest import sha256
from service.storage.hash_table import text_hash
from service.storage.json_file import read_json

FOLDER = "accepted"
"""The folder in the artifacts folder."""
STATE, LISTINGS = "state.json", "listings.msgpack"
FORMAT = 1
FLOOR = 10  # listings that any source may lose or change
PRICE_RISE = 10  # times the accepted price

_unsafe = re.compile(r"[^A-Za-z0-9._-]+")


class AcceptedListings(Struct, array_like=True):
    """The listings of a source: their names, whom they pay, and their prices.

    payees: hashes of the addresses of each, 0 without any
    prices: 0 where none is known
    """

    names: list[str] = []
    payees: list[int] = []
    prices: list[float] = []

    def facts(self) -> dict[str, tuple[int, float]]:
        """Return the payee and the price of each listing by its name."""
        return dict(zip(self.names, zip(self.payees, self.prices, strict=True), strict=True))

    def add(self, name: str, payees: list[str], price: float) -> None:
        """Add a listing."""
        self.names.append(name)
        self.payees.append(text_hash("\n".join(sorted(payees))) if payees else 0)
        self.prices.append(price)


class AcceptedState(Struct):
    """A source as it was last accepted.

    malformed: share of its records
    policy: the rules of the operator, with the removals of overlays; None where they are unknown
    is_lines: whether the copy is JSON lines, whatever it looks like
    copy: name of the copy of its text, empty without one
    sha256: of the copy
    stamp: size and modification time of the file that was copied
    """

    format: int
    read_at: datetime
    malformed: float
    is_lines: bool
    copy: str
    sha256: str
    stamp: tuple[int, int]
    policy: Policy | None = None


_listings = msgspec.msgpack.Decoder(AcceptedListings)


class AcceptedSource:
    """The accepted copy of one source, if there is one; `state` is None without."""

    def __init__(self, artifacts: Path, source: SourceOptions) -> None:
        place = source.url or str(Path(source.path).absolute())
        digest = hashlib.sha256(f"{source.name}\n{place}".encode("utf-8", "surrogateescape"))
        name = _unsafe.sub("-", source.name)[:64].strip(".-") or "source"
        self.folder = artifacts / FOLDER / f"{name}-{digest.hexdigest()[:16]}"
        state = read_json(self.folder / STATE, AcceptedState)
        self.state = state if state is not None and state.format == FORMAT else None
        if self.state is not None:
            with suppress(OSError):
                os.utime(self.folder)

    @property
    def copy(self) -> Path | None:
        """The copy of its text, None without one that is whole."""
        if self.state is None or not self.state.copy:
            return None
        path = self.folder / self.state.copy
        with suppress(OSError):
            return path if sha256(path) == self.state.sha256 else None
        return None

    def refresh(self, read_at: datetime) -> None:
        """Note that a source was still as it was accepted."""
        if self.state is not None:
            self.state.read_at = read_at
            self._replace(STATE, msgspec.json.encode(self.state))

    def was_empty(self) -> bool:
        """Whether the source was accepted without a listing."""
        return self.state is not None and not self._read().names

    def find_changes(
        self, listings: AcceptedListings, allowed: Fraction, left_out: Collection[str] = ()
    ) -> list[str]:
        """Return how these listings differ too much from the accepted ones, nothing if they do not.

        The share `allowed` of the accepted listings, or FLOOR, may go, change their payee, or cost
        PRICE_RISE times as much.

        left_out: URLs of listings that a new rule of the operator removed
        """
        accepted, now = self._read().facts(), listings.facts()
        kinds: dict[str, list[str]] = {"are gone": [], "pay another address": [], "cost more": []}
        limit = max(FLOOR, int(allowed * len(accepted)))
        for name, (payee, price) in accepted.items():
            if name not in now:
                if name.partition(" ")[0] not in left_out:
                    kinds["are gone"].append(name)
                continue
            new_payee, new_price = now[name]
            if payee and new_payee != payee:
                kinds["pay another address"].append(name)
            if 0 < price * PRICE_RISE <= new_price:
                kinds["cost more"].append(name)
        return [
            _describe(kind, names, len(accepted))
            for kind, names in kinds.items()
            if len(names) > limit
        ]

    def store(
        self,
        source: SourceOptions,
        path: Path,
        listings: AcceptedListings,
        read_at: datetime,
        malformed: float,
        policy: Policy | None = None,
        *,
        is_lines: bool,
    ) -> None:
        """Keep the listings of a source that was published, and a copy of its text if it is used.

        The state is replaced last, so that a crash leaves the earlier copy.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        status = path.stat()
        stamp = status.st_size, status.st_mtime_ns
        copy = ""
        if source.on_error is OnError.LAST:
            is_known = self.state is not None and self.state.stamp == stamp
            known = self.copy if is_known else None
            copy = known.name if known else self._copy(source, path)
        self._replace(LISTINGS, msgspec.msgpack.encode(listings))
        digest = sha256(self.folder / copy) if copy else ""
        state = AcceptedState(FORMAT, read_at, malformed, is_lines, copy, digest, stamp, policy)
        self._replace(STATE, msgspec.json.encode(state))
        for other in self.folder.iterdir():
            if other.name not in {STATE, LISTINGS, copy}:
                other.unlink(missing_ok=True)
        self.state = state

    def _copy(self, source: SourceOptions, path: Path) -> str:
        """Copy a text; of a feed, whose texts never change, by a link."""
        with tempfile.NamedTemporaryFile(dir=self.folder, prefix="text-", delete=False) as file:
            copy = Path(file.name)
        if source.url:
            copy.unlink()
            with suppress(OSError):
                os.link(path, copy)
        if not copy.exists() or not source.url:
            shutil.copyfile(path, copy)
        return copy.name

    def _replace(self, name: str, content: bytes) -> None:
        fresh = self.folder / f"{name}.new"
        fresh.write_bytes(content)
        fresh.replace(self.folder / name)

    def _read(self) -> AcceptedListings:
        try:
            return _listings.decode((self.folder / LISTINGS).read_bytes())
        except (OSError, msgspec.MsgspecError):
            return AcceptedListings()


def _describe(kind: str, names: list[str], total: int) -> str:
    shown = "".join(f"\n    {name}" for name in names[:MAX_EXAMPLES])
    more = f"\n    and {len(names) - MAX_EXAMPLES:,} more" if len(names) > MAX_EXAMPLES else ""
    return f"{len(names):,} of {total:,} listings {kind}{shown}{more}"


def remove_unused(artifacts: Path, now: datetime) -> None:
    """Remove copies of sources that were not read for 30 days."""
    folder = artifacts / FOLDER
    for each in folder.iterdir() if folder.is_dir() else ():
        with suppress(OSError):
            if now.timestamp() - each.stat().st_mtime > UNUSED_SECONDS:
                shutil.rmtree(each)
