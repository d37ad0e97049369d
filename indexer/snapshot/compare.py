"""What differs between two snapshots: the services added, changed and removed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from indexer.errors import Misuse
from indexer.text import one_line
from service.errors import REBUILD, SnapshotDamaged, SnapshotMissing
from service.snapshot.snapshot import CURRENT, MANIFEST, SNAPSHOTS, read_current, read_manifest
from service.storage.ids import IdTable
from service.storage.record_store import RecordStore

LONGEST_SHOWN = 200
READ_AT_ONCE = 2**14
RECORDS = "records"
COMPARED = (f"{RECORDS}.", "ids.")


class Changes(Struct):
    """How many services were added, changed and removed between two snapshots."""

    added: int
    changed: int
    removed: int


class PriceRange(Struct, rename="camel"):
    """The range of a service's prices; the amounts are empty where none is fixed."""

    min_amount: str
    max_amount: str
    currency: str

    def __str__(self) -> str:
        amounts = dict.fromkeys(amount for amount in (self.min_amount, self.max_amount) if amount)
        return f"{'–'.join(amounts)} {self.currency}" if amounts else "no fixed price"


class Named(Struct):
    """A service that one of two snapshots has."""

    id: str
    name: str


class Repricing(Struct):
    """The price range of a service before and after, None where it has no prices."""

    old: PriceRange | None
    new: PriceRange | None

    def __str__(self) -> str:
        return f"{self.old or 'no price'} → {self.new or 'no price'}"


class Change(Struct, omit_defaults=True):
    """A service that differs: the top-level keys that do, and its price range where that does.

    No key differs when only their order or how they are written does.
    """

    id: str
    name: str
    keys: list[str]
    price: Repricing | None = None


class Difference(Struct):
    """How the services of two snapshots differ, by the ids of both.

    What was added and changed is in the listing order of the new one, what was removed in that of
    the old one.
    """

    old: str
    new: str
    added: list[Named]
    removed: list[Named]
    changed: list[Change]


class Summed(Struct, rename="camel"):
    """The part of a service that a difference shows."""

    id: str
    name: str
    price_summary: PriceRange | None = None


_summed = msgspec.json.Decoder(Summed)
_fields = msgspec.json.Decoder(dict[str, Raw])


def compare(old: Path, new: Path) -> Difference:
    """How the services of two snapshot folders differ; only those that differ are decoded.

    Raises SnapshotDamaged for a folder that does not hold what a snapshot must.
    """
    difference = Difference(old.name, new.name, [], [], [])
    with _damage_said(old, new):
        before, after = Services(old), Services(new)
        unmet = bytearray(b"\1") * len(before)
        for ordinal, earlier in _counterparts(before, after):
            text = after.text(ordinal)
            if earlier is None:
                difference.added.append(_named(text))
                continue
            unmet[earlier] = 0
            if (was := before.text(earlier)) != text:
                difference.changed.append(_change(was, text))
        removed = (ordinal for ordinal, is_unmet in enumerate(unmet) if is_unmet)
        difference.removed.extend(_named(before.text(ordinal)) for ordinal in removed)
    return difference


def count_changes(old: Path, new: Path) -> tuple[int, int, int]:
    """How many services were added, changed and removed between two folders; decodes nothing.

    A folder needs its record store and its ids: it may be of a snapshot that is being built.
    Raises SnapshotDamaged as `compare` does.
    """
    with _damage_said(old, new):
        before, after = Services(old), Services(new)
        added = changed = 0
        for ordinal, earlier in _counterparts(before, after):
            if earlier is None:
                added += 1
            else:
                changed += before.text(earlier) != after.text(ordinal)
        return added, changed, len(before) - (len(after) - added)


def find_snapshot(artifacts: Path, name: str) -> Path:
    """The folder of a snapshot, whole as far as the sizes of what is compared tell.

    The name is an id or the start of one, of a snapshot in `artifacts`, or the path of a snapshot
    folder or of an artifacts folder, which stands for the snapshot that it serves. Raises Misuse
    when several ids start so, else SnapshotUnavailable.
    """
    folder = _find(artifacts, name)
    try:
        for file_name, file in read_manifest(folder).files.items():
            path = folder / file_name
            if file_name.startswith(COMPARED) and path.stat().st_size != file.bytes:
                raise SnapshotDamaged(f"{path} has not the {file.bytes} bytes it should; {REBUILD}")
    except (OSError, ValueError) as error:  # the latter for a manifest that is not UTF-8
        raise SnapshotDamaged(f"{folder}: {error}; {REBUILD}") from error
    return folder


def summarise_difference(difference: Difference, *, as_json: bool) -> str:
    """A line for each service that differs and one with the counts, or the difference as JSON."""
    if as_json:
        return msgspec.json.encode(difference).decode()
    added, removed, changed = difference.added, difference.removed, difference.changed
    return "\n".join(
        [
            *(f"+ {service.id}  {_shown(service.name)}" for service in added),
            *(f"- {service.id}  {_shown(service.name)}" for service in removed),
            *(f"~ {change.id}  {_shown(change.name)}: {_what(change)}" for change in changed),
            f"{len(added):,} added, {len(changed):,} changed, {len(removed):,} removed",
        ]
    )


class Services:
    """The stored services of a snapshot folder and their ids."""

    def __init__(self, folder: Path) -> None:
        try:
            self.ids = IdTable(folder)
            self._records = RecordStore(folder, RECORDS)
        except (OSError, ValueError) as error:
            raise SnapshotDamaged(f"{folder}: {error}; {REBUILD}") from error
        self._folder = folder
        self._read = 0

    def __len__(self) -> int:
        return len(self._records)

    def text(self, ordinal: int) -> bytes:
        """The stored JSON of a service.

        Pages count as memory of the process for as long as their file stays mapped, so the records
        are mapped anew now and then.
        """
        self._read += 1
        if self._read % READ_AT_ONCE == 0:
            self._records = RecordStore(self._folder, RECORDS)
        return self._records.text(ordinal)


@contextmanager
def _damage_said(old: Path, new: Path) -> Iterator[None]:
    """Turn what damaged bytes of one of these folders are taken for into SnapshotDamaged."""
    try:
        yield
    except (OSError, ValueError, LookupError, msgspec.MsgspecError) as error:
        raise SnapshotDamaged(f"{old} or {new} is damaged: {error}; {REBUILD}") from error


def _counterparts(before: Services, after: Services) -> Iterator[tuple[int, int | None]]:
    """Each new ordinal with the old one of the same id."""
    for ordinal in range(len(after)):
        yield ordinal, before.ids.find(after.ids[ordinal])


def _named(text: bytes) -> Named:
    service = _summed.decode(text)
    return Named(service.id, service.name)


def _change(old: bytes, new: bytes) -> Change:
    before, after = _fields.decode(old), _fields.decode(new)
    keys = [key for key in after | before if before.get(key) != after.get(key)]
    was, service = _summed.decode(old), _summed.decode(new)
    change = Change(service.id, service.name, keys)
    if was.price_summary != service.price_summary:
        change.price = Repricing(was.price_summary, service.price_summary)
    return change


def _what(change: Change) -> str:
    keys = _shown(", ".join(change.keys) or "order or spelling")
    return f"{keys} ({_shown(str(change.price))})" if change.price else keys


def _shown(text: str) -> str:
    return one_line(text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 1]}…")


def _find(artifacts: Path, name: str) -> Path:
    known = artifacts / SNAPSHOTS
    ids = sorted(path.name for path in known.iterdir()) if known.is_dir() else []
    path = Path(name).resolve()
    if name in ids:
        return known / name
    if (path / CURRENT).exists():
        return path / SNAPSHOTS / read_current(path)[0]
    if (path / MANIFEST).exists():
        return path
    found = [known_id for known_id in ids if known_id.startswith(name)]
    if len(found) > 1:
        raise Misuse(f"{name}: several snapshots start so; say which: {', '.join(found)}")
    if not found:
        held = f"which holds {', '.join(ids) or 'none'}"
        raise SnapshotMissing(f"{name}: no snapshot of {artifacts}, {held}; nor the path of one")
    return known / found[0]
