"""The public schema of snapshots, and of the changes between them."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from service.schema.records import Service
from service.schema.status import Counts
from service.schema.values import ServiceId, Timestamp, Whole

SNAPSHOT_ID_PATTERN = r"^[0-9a-f]{20}$(?!\n)"

SnapshotId = Annotated[
    str,
    Meta(
        pattern=SNAPSHOT_ID_PATTERN,
        description="20 hexadecimal digits in lower case.",
        extra={"meaning": "the id of a snapshot, 20 hexadecimal digits in lower case"},
    ),
]


class SnapshotFile(Struct):
    """A file of a snapshot, by its path in the folder of the snapshot."""

    path: str
    bytes: Whole
    sha256: str


class SnapshotDescription(Struct, kw_only=True):
    """A snapshot: when it was built, and when a build last found it up to date.

    `downloads` are archives of it, relative to `/v1/snapshots/`; empty where there are none.
    """

    id: SnapshotId
    built_at: Timestamp
    checked_at: Timestamp
    counts: Counts
    files: list[SnapshotFile]
    downloads: list[SnapshotFile]


class SnapshotList(Struct):
    """The newest snapshots that are kept, the last publication first."""

    snapshots: list[SnapshotDescription]


class SnapshotEnvelope(Struct):
    """A snapshot that is kept."""

    snapshot: SnapshotDescription


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


class ServiceAlerts(Struct, omit_defaults=True):
    """A changed service whose endpoints pay other addresses, or cost ten times as much or less."""

    service: ServiceId
    payees: list[PayeeChange] = []
    prices: list[PriceJump] = []


class ChangeList(Struct, rename={"since": "from"}, kw_only=True):
    """A page of the services that differ between two snapshots, in order of id.

    `total` counts the changes of all pages. Services that are added or changed are as the snapshot
    `to` has them. `cursor` is that of the next page, null on the last one. `alerts` single out the
    changed services of this page whose payees changed, or whose prices moved tenfold; without any
    the member is left out.
    """

    since: SnapshotId
    to: SnapshotId
    total: Whole
    added: list[Service]
    changed: list[Service]
    removed: list[ServiceId]
    cursor: str | None
    alerts: list[ServiceAlerts] | UnsetType = UNSET
