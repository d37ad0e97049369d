"""Writing what `service.storage.record_store` and `service.storage.ids` read."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path

import numpy as np

from service.storage.hash_table import write_hash_table
from service.storage.ids import id_hash


def write_record_store(folder: Path, name: str, texts: Iterable[bytes]) -> int:
    """Write JSON texts joined by commas, and the offset of each; returns how many."""
    offsets = array("q", [0])
    with (folder / f"{name}.json").open("wb") as file:
        for text in texts:
            if len(offsets) > 1:
                file.write(b",")
            file.write(text)
            offsets.append(offsets[-1] + len(text) + 1)
    np.save(folder / f"{name}.offsets.npy", np.asarray(offsets, np.int64))
    return len(offsets) - 1


def write_records(folder: Path, texts: Iterable[bytes]) -> None:
    """Write the stored services, and 64 bits of BLAKE2b of each, as uint64, for entity tags."""
    tags = array("Q")

    def tagged() -> Iterator[bytes]:
        for text in texts:
            tags.append(int.from_bytes(blake2b(text, digest_size=8).digest(), "little"))
            yield text

    write_record_store(folder, "records", tagged())
    np.save(folder / "tags.npy", np.asarray(tags, np.uint64))


def read_record_store(folder: Path, name: str, span: range | None = None) -> Iterator[bytes]:
    """The texts of a store in their order, or those of a span of ordinals.

    Read and not mapped: what was read of a mapping stays with the memory of the process.
    """
    offsets = np.load(folder / f"{name}.offsets.npy", allow_pickle=False)
    if span is not None:
        offsets = offsets[span.start : span.stop + 1]
    with (folder / f"{name}.json").open("rb") as file:
        file.seek(int(offsets[0]))
        for start, stop in pairwise(offsets.tolist()):
            yield file.read(stop - start - 1)
            file.read(1)


def write_ids(folder: Path, ids: list[str]) -> None:
    """Write ids in listing order, and by hash."""
    write_record_store(folder, "ids", (b'"%b"' % service_id.encode() for service_id in ids))
    hashes = np.fromiter(map(id_hash, ids), np.uint64, len(ids))
    write_hash_table(folder / "ids", hashes, np.arange(len(ids), dtype=np.int32))
