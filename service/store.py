"""The record store: JSON texts laid end to end, so that a page is one slice of a file.

`<name>.json` holds the texts joined by commas; `<name>.offsets.npy` holds, as int64, the byte at
which each starts and one past the last comma that would follow the last text.
"""

from __future__ import annotations

import mmap
from hashlib import blake2b
from pathlib import Path

import numpy as np
import numpy.typing as npt

from service.errors import SnapshotDamaged


def open_array(path: Path) -> npt.NDArray[np.generic]:
    """Map a `.npy` file of plain numbers; raises SnapshotDamaged when it is not one."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]  # numpy types np.load as Any
    except (OSError, ValueError, EOFError) as error:
        raise SnapshotDamaged(f"{path}: {error}") from error


def open_bytes(path: Path) -> memoryview:
    """Map a file as read-only bytes."""
    with path.open("rb") as file:
        if not path.stat().st_size:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


class Store:
    """JSON texts by ordinal."""

    def __init__(self, folder: Path, name: str) -> None:
        self._texts = open_bytes(folder / f"{name}.json")
        self._offsets = open_array(folder / f"{name}.offsets.npy")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def text(self, ordinal: int) -> bytes:
        """One JSON text."""
        return self.slice(ordinal, ordinal + 1)

    def slice(self, start: int, stop: int) -> bytes:
        """The texts from `start` up to `stop`, joined by commas; empty past the end."""
        stop = min(stop, len(self))
        if start >= stop:
            return b""
        return bytes(self._texts[int(self._offsets[start]) : int(self._offsets[stop]) - 1])


class IdLookup:
    """The ordinal of each id, by binary search over 64-bit digests.

    `digests` is sorted uint64[n], `ordinals` the uint32[n] beside it. Two ids may share a digest,
    so the id found is compared.
    """

    def __init__(self, folder: Path) -> None:
        self._digests = open_array(folder / "ids.digests.npy")
        self._ordinals = open_array(folder / "ids.ordinals.npy")
        self._ids = Store(folder, "ids")

    def id(self, ordinal: int) -> str:
        """The id of a service."""
        return self._ids.text(ordinal)[1:-1].decode("ascii")

    def ordinal(self, service_id: str) -> int | None:
        """The ordinal of a service, or None."""
        wanted = id_digest(service_id)
        position = int(np.searchsorted(self._digests, np.uint64(wanted)))
        while position < len(self._digests) and int(self._digests[position]) == wanted:
            ordinal = int(self._ordinals[position])
            if self.id(ordinal) == service_id:
                return ordinal
            position += 1
        return None


def id_digest(service_id: str) -> int:
    """64 bits of BLAKE2b of an id; any text has one."""
    digest = blake2b(service_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")
