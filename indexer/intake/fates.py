"""Fates of records that are not published, or noted: spooled until the table of them is written."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path, PurePath
from struct import Struct

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import UNSET

from indexer.intake.findings import Address, Subject
from indexer.record_store import Spool
from indexer.text import drop_ignorable, shorten
from service.schema.listings import FATES, Fate, ListingFate
from service.snapshot.listings import ListingSource, position_hash

MAX_UNLISTED = 100_000
"""URLs of one source that are not listed, and as many notes: a build keeps no more."""
NO_HOST = 0
ROW = np.dtype(
    [
        ("url", "<u8"),
        ("host", "<u8"),
        ("text", "<u8"),  # hash of it
        ("number", "<i8"),  # in the spool
        ("source", "<i4"),
        ("fate", "<i4"),
        ("advice", "<i4"),
    ]
)
PAYEE = np.dtype([("payee", "<u8"), ("url", "<u8")])

# The same layout as the dtypes of these names.
_row = Struct("<QQQqiii")
_payee = Struct("<QQ")

FateRows = npt.NDArray[np.void]
_encode = msgspec.json.Encoder().encode


class FateSpool:
    """Collects fates by hashes of URLs; their `texts` go to a spool in `folder`."""

    def __init__(self, folder: Path | None = None) -> None:
        self.texts = Spool(folder)
        self._rows, self._payees = bytearray(), bytearray()
        self._counts: list[dict[bool, int]] = []
        self._marks: list[tuple[int, int]] = []  # sizes of both when a source began
        self._sources: list[ListingSource] = []

    @property
    def sources(self) -> list[ListingSource]:
        """The sources, each with the number of its URLs that have no row."""
        for source, counts in zip(self._sources, self._counts, strict=True):
            source.more = max(0, counts[False] - MAX_UNLISTED)
        return self._sources

    def start(self, name: str, public_name: str) -> None:
        """Start the next source; its public name is empty if it lists nothing."""
        shown = shorten(drop_ignorable(public_name or PurePath(name).name))
        self._sources.append(ListingSource(shown, is_read=bool(public_name)))
        self._counts.append({False: 0, True: 0})
        self._marks.append((len(self._rows), len(self._payees)))

    def discard(self) -> None:
        """Forget the source that was started last."""
        rows, payees = self._marks.pop()
        del self._rows[rows:], self._payees[payees:]
        del self._sources[-1], self._counts[-1]

    def add(
        self,
        source: int,
        name: str,
        position: str,
        fate: Fate,
        path: str,
        reason: str,
        subject: Subject,
    ) -> None:
        """Add the fate of a record of the source of a number.

        A record without a URL is found by its position and the name of its source in reports. Other
        records are not, as a source that is reordered would change the snapshot.
        """
        is_note = fate is Fate.NOTED
        addresses = subject.addresses
        if not addresses and not is_note:
            addresses = (Address(position_hash(name, position), NO_HOST),)
        counts = self._counts[source]
        room = max(0, MAX_UNLISTED - counts[is_note])
        counts[is_note] += len(addresses)
        if not addresses[:room]:
            return
        shown = ListingFate(
            source=self._sources[source].name,
            fate=fate,
            reason=shorten(drop_ignorable(reason)),
            path=shorten(drop_ignorable(path)) or UNSET,
        )
        text = _encode(shown)
        digest = int.from_bytes(blake2b(text, digest_size=8).digest(), "little")
        number, code, advice = self.texts.add(text), FATES.index(fate), int(subject.advice)
        for url, host in addresses[:room]:
            self._rows += _row.pack(url, host, digest, number, source, code, advice)
            if not is_note and host != NO_HOST:
                for payee in subject.payees:
                    self._payees += _payee.pack(payee, url)

    def rows(self) -> FateRows:
        """Return the rows, as ROW, in the order in which they came."""
        return np.frombuffer(bytes(self._rows), ROW)

    def payees(self) -> FateRows:
        """Return the payees of the URLs, as PAYEE."""
        return np.frombuffer(bytes(self._payees), PAYEE)
