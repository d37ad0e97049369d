"""The difference between two snapshots: services added, changed and removed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from indexer.decisions import read_decisions
from indexer.errors import Misuse
from indexer.intake.findings import Conflict
from indexer.snapshot.changes import (
    COMPARED_FILES,
    PayeeChange,
    PriceJump,
    compare_services,
    find_alerts,
)
from indexer.text import one_line
from service.errors import REBUILD, SnapshotDamaged, SnapshotMissing, SnapshotUnavailable
from service.prices import price_range
from service.snapshot.manifest import MANIFEST, check_files, read_manifest
from service.snapshot.publication import CURRENT, SNAPSHOTS, read_current

LONGEST_SHOWN = 200  # characters


class ChangeCounts(Struct):
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
        return str(price_range(self.min_amount, self.max_amount, self.currency))


class ServiceName(Struct):
    """A service that only one of two snapshots has."""

    id: str
    name: str


class PriceChange(Struct):
    """The price range of a service before and after, None where it has no prices."""

    old: PriceRange | None
    new: PriceRange | None

    def __str__(self) -> str:
        return f"{self.old or 'no price'} → {self.new or 'no price'}"


class ServiceChange(Struct, omit_defaults=True):
    """A service that differs: its top-level keys that do, and its price range if that does.

    There are no such keys where only the order of the keys or the spelling of values differs.
    `payees` and `prices` are the endpoints that both have and whose address differs, or whose price
    moved tenfold.
    """

    id: str
    name: str
    keys: list[str]
    price: PriceChange | None = None
    payees: list[PayeeChange] = []
    prices: list[PriceJump] = []


class SnapshotDifference(Struct):
    """The difference between the snapshots `old` and `new`.

    Added and changed services are in the new listing order, removed ones in the old. `conflicts`
    are those between sources that only the new one has.
    """

    old: str
    new: str
    added: list[ServiceName]
    removed: list[ServiceName]
    changed: list[ServiceChange]
    conflicts: list[Conflict] = []


class PricedService(Struct, rename="camel"):
    """The part of a service that a difference shows."""

    id: str
    name: str
    price_summary: PriceRange | None = None


_name = msgspec.json.Decoder(ServiceName)
_service = msgspec.json.Decoder(PricedService)
_fields = msgspec.json.Decoder(dict[str, Raw])


def compare(old: Path, new: Path) -> SnapshotDifference:
    """Compare the services of two snapshot folders, decoding only those that differ.

    Raises SnapshotDamaged for a folder that is not a whole snapshot.
    """
    difference = SnapshotDifference(old.name, new.name, [], [], [])
    with _reporting_damage(old, new):
        for before, after in compare_services(old, new):
            if before is None and after is not None:
                difference.added.append(_name.decode(after))
            elif after is None and before is not None:
                difference.removed.append(_name.decode(before))
            elif before is not None and after is not None:
                difference.changed.append(_change(before, after))
    was, now = (
        set(read_decisions(each, read_manifest(each).files).conflicts) for each in (old, new)
    )
    difference.conflicts = sorted(now - was)
    return difference


def count_changes(old: Path, new: Path) -> ChangeCounts:
    """Count the services that were added, changed and removed.

    A folder needs no more than its records and ids: it may hold a snapshot that is being built.
    Raises SnapshotDamaged as `compare` does.
    """
    counts = ChangeCounts(0, 0, 0)
    with _reporting_damage(old, new):
        for before, after in compare_services(old, new):
            counts.added += before is None
            counts.removed += after is None
            counts.changed += before is not None and after is not None
    return counts


def compare_with_served(artifacts: Path, built: Path) -> tuple[str, ChangeCounts | None]:
    """Return the id of the served snapshot, and the changes from it to `built`, if it is whole."""
    served = ""
    try:
        served = read_current(artifacts).id
        folder = artifacts / SNAPSHOTS / served
        read_manifest(folder)  # raises for another format: its hashes of records are others
        return served, count_changes(folder, built)
    except SnapshotUnavailable:
        return served, None


def find_snapshot(artifacts: Path, name: str) -> Path:
    """Return the folder of a snapshot, having checked the hashes of the files that are compared.

    The name is an id in `artifacts` or the start of an id, or the path of a snapshot or of an
    artifacts folder, which means its served snapshot. Raises Misuse for an ambiguous name,
    otherwise SnapshotUnavailable.
    """
    folder = _find(artifacts, name)
    try:
        files = read_manifest(folder).files
        check_files(folder, {name: files[name] for name in COMPARED_FILES})
    except KeyError as error:
        raise SnapshotDamaged(f"{folder / MANIFEST} has no {error}; {REBUILD}") from error
    return folder


def summarise_difference(difference: SnapshotDifference) -> str:
    """Return a line for each service that differs, and one with the counts."""
    added, removed, changed = difference.added, difference.removed, difference.changed
    return "\n".join(
        [
            *(f"+ {service.id}  {_shorten(service.name)}" for service in added),
            *(f"- {service.id}  {_shorten(service.name)}" for service in removed),
            *(line for change in changed for line in _describe_change(change)),
            *(f"! {_shorten(str(conflict))}" for conflict in difference.conflicts),
            f"{len(added):,} added, {len(changed):,} changed, {len(removed):,} removed",
        ]
    )


@contextmanager
def _reporting_damage(old: Path, new: Path) -> Iterator[None]:
    """Raise SnapshotDamaged instead of the errors that damaged files cause."""
    try:
        yield
    except (OSError, ValueError, LookupError, msgspec.MsgspecError) as error:
        raise SnapshotDamaged(f"{old} or {new} is damaged: {error}; {REBUILD}") from error


def _change(old: bytes, new: bytes) -> ServiceChange:
    old_fields, new_fields = _fields.decode(old), _fields.decode(new)
    every_key = new_fields | old_fields
    keys = [key for key in every_key if old_fields.get(key) != new_fields.get(key)]
    before, after = _service.decode(old), _service.decode(new)
    payees, prices = find_alerts(old, new)
    change = ServiceChange(after.id, after.name, keys, payees=payees, prices=prices)
    if before.price_summary != after.price_summary:
        change.price = PriceChange(before.price_summary, after.price_summary)
    return change


def _describe_change(change: ServiceChange) -> Iterator[str]:
    keys = _shorten(", ".join(change.keys) or "order or spelling")
    price = f" ({_shorten(str(change.price))})" if change.price else ""
    yield f"~ {change.id}  {_shorten(change.name)}: {keys}{price}"
    yield from (f"    {_shorten(str(payee))}" for payee in change.payees)
    yield from (f"    {_shorten(str(price))}" for price in change.prices)


def _shorten(text: str) -> str:
    return one_line(text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 1]}…")


def _find(artifacts: Path, name: str) -> Path:
    folder = artifacts / SNAPSHOTS
    ids = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    path = Path(name).resolve()
    if name in ids:
        return folder / name
    if (path / CURRENT).exists():
        return path / SNAPSHOTS / read_current(path).id
    if (path / MANIFEST).exists():
        return path
    matches = [each for each in ids if each.startswith(name)]
    if len(matches) > 1:
        raise Misuse(f"{name}: several snapshots start so; say which: {', '.join(matches)}")
    if not matches:
        held = f"which holds {', '.join(ids) or 'none'}"
        raise SnapshotMissing(f"{name}: no snapshot of {artifacts}, {held}; nor the path of one")
    return folder / matches[0]
