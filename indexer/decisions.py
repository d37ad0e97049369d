"""Decisions: what a snapshot settled between sources, which the next build keeps to.

A domain keeps its plain id, a listing the source that leads it, and a host its claim on payments to
an address, whoever else asks for them later.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import UNSET, Struct, UnsetType

from indexer.errors import SourceError
from indexer.intake.findings import Conflict
from service.arrays.files import sha256
from service.arrays.texts import text_hash
from service.errors import SnapshotUnavailable, SnapshotUnsupported
from service.snapshot.manifest import File, read_manifest

FILE = "decisions.json"
MAX_CONFLICTS = 10_000


class DecisionTable(Struct):
    """The decisions as they are stored, in an order that depends on nothing else.

    ids: plain ids, each with its domain
    listings: names of sources, each with the hashes of the listings that it leads
    claims: hashes of the claims on payments that count
    conflicts: those of listings that are published, by URL, at most MAX_CONFLICTS
    denials: those of the manifest, so that snapshots with other ones have other ids
    """

    ids: dict[str, str] = {}
    listings: dict[str, list[int]] = {}
    claims: list[int] = []
    conflicts: list[Conflict] = []
    denials: Sequence[str] | UnsetType = UNSET


_table = msgspec.json.Decoder(DecisionTable)


class Decisions:
    """The decisions of the served snapshot, and those of the one that is being built."""

    def __init__(self, served: DecisionTable | None = None) -> None:
        served = served or DecisionTable()
        self._ids = served.ids
        self._sources = {key: name for name, keys in served.listings.items() for key in keys}
        self._claims = frozenset(served.claims)
        self._made = DecisionTable()
        self._chosen: dict[int, str] = {}
        self._counted: set[int] = set()
        self.conflicts: list[Conflict] = []

    def owner_of(self, plain_id: str) -> str:
        """Return the domain that has a plain id in the served snapshot, or an empty string."""
        return self._ids.get(plain_id, "")

    def source_of(self, key: str) -> str:
        """Return the source that leads a listing in the served snapshot, or nothing."""
        return self._sources.get(text_hash(key), "")

    def has_claim(self, claim: str) -> bool:
        """Whether a claim on payments counts in the served snapshot."""
        return text_hash(claim) in self._claims

    def own(self, plain_id: str, domain: str) -> None:
        """Give a plain id to a domain."""
        self._made.ids[plain_id] = domain

    def take(self, key: str, source: str) -> None:
        """Let a source lead a listing."""
        self._chosen[text_hash(key)] = source

    def count(self, claim: str) -> None:
        """Count a claim on payments."""
        self._counted.add(text_hash(claim))

    @property
    def served_ids(self) -> set[str]:
        """The ids of the served snapshot that were derived."""
        return set(self._ids)

    def keep(self) -> None:
        """Keep all decisions of the served snapshot, as a source that they are about is absent."""
        self._made.ids |= self._ids
        self._chosen |= self._sources
        self.keep_claims()

    def keep_claims(self) -> None:
        """Keep the claims of the served snapshot, where no payments were read."""
        self._counted.update(self._claims)

    def write(self, folder: Path, denials: Sequence[str] = ()) -> None:
        """Write the decisions that were made, and the denials, if there are any."""
        for key, source in sorted(self._chosen.items(), key=lambda item: (item[1], item[0])):
            self._made.listings.setdefault(source, []).append(key)
        self._made.ids = dict(sorted(self._made.ids.items()))
        self._made.claims = sorted(self._counted)
        self._made.conflicts = self.conflicts[:MAX_CONFLICTS]
        self._made.denials = denials or UNSET
        (folder / FILE).write_bytes(msgspec.json.encode(self._made))


def read_decisions(snapshot: Path) -> DecisionTable:
    """Read the decisions of a snapshot of any format, none of one that is older than decisions.

    Where the manifest is damaged, they are as good as they can be decoded. Raises SourceError for a
    damaged file: without it, ids and payees could change hands.
    """
    path, files, is_older = snapshot / FILE, dict[str, File](), False
    try:
        files = read_manifest(snapshot).files
        is_older = FILE not in files
    except SnapshotUnsupported:
        is_older = not path.exists()
    except SnapshotUnavailable:
        pass
    if is_older:
        return DecisionTable()
    try:
        if not files or sha256(path) == files[FILE].sha256:
            return _table.decode(path.read_bytes())
    except (OSError, msgspec.MsgspecError):
        pass
    raise SourceError(
        f"{path}: is damaged, so that ids and payees could change hands; `rollback` to an earlier "
        "snapshot, or --forget what was decided"
    )
