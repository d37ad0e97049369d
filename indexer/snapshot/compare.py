"""The difference between two snapshots: services added, changed and removed, and alerts.

Alerts are endpoints of a changed service that pay another address, or whose price moved tenfold.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from indexer.decisions import read_decisions
from indexer.endpoints import NamedEndpoint, decode_endpoints
from indexer.errors import Misuse
from indexer.intake.findings import Conflict
from indexer.intake.rules import fold_address
from indexer.text import one_line
from service.arrays.container import open_arrays
from service.arrays.texts import IdTable, Records
from service.errors import SnapshotMissing, SnapshotUnavailable
from service.prices import is_ceiling, price_range
from service.schema.records import Pricing
from service.snapshot.manifest import MANIFEST, check_files, read_manifest
from service.snapshot.publication import CURRENT, SNAPSHOTS, read_current

COMPARED_FILES = {"records.json", "records.arrays", "ids.arrays"}
"""The files of a snapshot that are read to compare it."""
MULTIPLE = 10
"""The factor of a price that is singled out, up or down."""
LONGEST_SHOWN = 200  # characters


class ChangeCounts(Struct):
    """How many services were added, changed and removed between two snapshots."""

    added: int = 0
    changed: int = 0
    removed: int = 0


class PriceRange(Struct, rename="camel"):
    """The range of a service's prices; the amounts are empty where none is fixed."""

    min_amount: str
    max_amount: str
    currency: str

    def __str__(self) -> str:
        return str(price_range(self.min_amount, self.max_amount, self.currency))


class PayeeChange(Struct):
    """An endpoint that pays another address, null where its record names none."""

    url: str
    method: str
    old: str | None
    new: str | None

    def __str__(self) -> str:
        return f"{self.url} pays {self.new or 'no address'}, and paid {self.old or 'none'}"


class PriceJump(Struct):
    """An endpoint whose price moved tenfold or more, up or down, in units of its currency."""

    url: str
    method: str
    currency: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.url} costs {self.new} {self.currency}, and cost {self.old}"


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


class _PricedService(ServiceName, rename="camel"):
    """The part of a service that a difference shows."""

    price_summary: PriceRange | None = None


_name = msgspec.json.Decoder(ServiceName)
_service = msgspec.json.Decoder(_PricedService)
_fields = msgspec.json.Decoder(dict[str, Raw])


def compare(old: Path, new: Path) -> SnapshotDifference:
    """Compare two snapshots whose files were checked; decodes only the services that differ."""
    was, now = (set(read_decisions(each).conflicts) for each in (old, new))
    difference = SnapshotDifference(old.name, new.name, [], [], [], sorted(now - was))
    before, after = Records(old), Records(new)
    for earlier, later in _differences(old, new):
        if earlier is None and later is not None:
            difference.added.append(_name.decode(after.view(later)))
        elif later is None and earlier is not None:
            difference.removed.append(_name.decode(before.view(earlier)))
        elif later is not None and earlier is not None:
            difference.changed.append(_change(before.text(earlier), after.text(later)))
    return difference


def compare_with_served(artifacts: Path, built: Path) -> tuple[str, ChangeCounts | None]:
    """Return the id of the served snapshot, and the changes from it to `built`, if it is whole."""
    served = ""
    try:
        served = read_current(artifacts).id
        return served, count_changes(find_snapshot(artifacts, served), built)
    except SnapshotUnavailable:
        return served, None


def count_changes(old: Path, new: Path) -> ChangeCounts:
    """Count the services that were added, changed and removed."""
    counts = ChangeCounts()
    for before, after in _differences(old, new):
        counts.added += before is None
        counts.removed += after is None
        counts.changed += before is not None and after is not None
    return counts


def find_snapshot(artifacts: Path, name: str) -> Path:
    """Return the folder of a snapshot, having checked the hashes of the files that are compared.

    The name is an id in `artifacts` or the start of an id, or the path of a snapshot or of an
    artifacts folder, which means its served snapshot. Raises Misuse for an ambiguous name,
    otherwise SnapshotUnavailable.
    """
    folder = _find(artifacts, name)
    files = read_manifest(folder).files
    check_files(folder, {name: files[name] for name in COMPARED_FILES & files.keys()})
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


def _differences(old: Path, new: Path) -> Iterator[tuple[int | None, int | None]]:
    """Yield the ordinals of the services that differ: as they are listed, then the removed ones."""
    before, after = map(_hashes, (old, new))
    for service_id, (ordinal, digest) in after.items():
        earlier, known = before.pop(service_id, (None, b""))
        if known != digest:
            yield earlier, ordinal
    yield from ((ordinal, None) for ordinal, _ in before.values())


def _hashes(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return the ordinals and the hashes of the services of a snapshot, by id."""
    ids, hashes = IdTable(folder), open_arrays(folder / "records.arrays")["hashes"]
    digests = hashes.view("V16").ravel().tolist()
    return {ids[ordinal]: (ordinal, digest) for ordinal, digest in enumerate(digests)}


def _change(old: bytes, new: bytes) -> ServiceChange:
    old_fields, new_fields = _fields.decode(old), _fields.decode(new)
    every_key = new_fields | old_fields
    keys = [key for key in every_key if old_fields.get(key) != new_fields.get(key)]
    before, after = _service.decode(old), _service.decode(new)
    change = ServiceChange(after.id, after.name, keys, payees=[], prices=[])
    if before.price_summary != after.price_summary:
        change.price = PriceChange(before.price_summary, after.price_summary)
    for earlier, later in _pairs(decode_endpoints(old), decode_endpoints(new)):
        place = later.url, later.method
        if fold_address(earlier.payee) != fold_address(later.payee):
            payees = earlier.payee or None, later.payee or None
            change.payees.append(PayeeChange(*place, *payees))
        was, now = earlier.decode_pricing(), later.decode_pricing()
        amounts = _amount(was), _amount(now)
        if was.currency.casefold() == now.currency.casefold() and _is_jump(*amounts):
            change.prices.append(PriceJump(*place, now.currency, *amounts))
    return change


def _pairs(
    old: list[NamedEndpoint], new: list[NamedEndpoint]
) -> Iterator[tuple[NamedEndpoint, NamedEndpoint]]:
    """Yield the endpoints of both; of several alike the first with the first, and so on.

    Tools of one URL differ by their names.
    """
    known: defaultdict[tuple[str, str, bytes], deque[NamedEndpoint]] = defaultdict(deque)
    for each in old:
        known[each.url, each.method, bytes(each.tool)].append(each)
    for each in new:
        if alike := known[each.url, each.method, bytes(each.tool)]:
            yield alike.popleft(), each


def _amount(pricing: Pricing) -> str:
    """Return the amount of a price, or the ceiling of a scheme that has one."""
    return (pricing.max_amount if is_ceiling(pricing) else "") or pricing.amount


def _is_jump(before: str, after: str) -> bool:
    """Return whether an amount moved by MULTIPLE or more, or from or to nothing."""
    try:
        low, high = sorted((Decimal(before), Decimal(after)))
    except ArithmeticError:  # no amount
        return False
    return low != high and high >= low * MULTIPLE


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
