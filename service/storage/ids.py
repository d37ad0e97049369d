"""Ids: which service has which, found without reading them all."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

from service.storage.hash_table import open_hash_table
from service.storage.record_store import RecordStore


class IdTable:
    """The ids of a snapshot, by ordinal and by value."""

    def __init__(self, folder: Path) -> None:
        self._texts = RecordStore(folder, "ids")
        self._ordinals = open_hash_table(folder / "ids")

    def __getitem__(self, ordinal: int) -> str:
        return self._texts.text(ordinal)[1:-1].decode("ascii")

    def find(self, service_id: str) -> int | None:
        """The ordinal of a service, or None; what a hash finds is compared."""
        for ordinal in self._ordinals.of((id_hash(service_id),)):
            if self[ordinal] == service_id:
                return ordinal
        return None


def id_hash(service_id: str) -> int:
    """64 bits of BLAKE2b of an id; any text has them."""
    digest = blake2b(service_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")
