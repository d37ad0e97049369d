"""Writing what `service.store` reads."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from service.store import id_digest


def write_store(folder: Path, name: str, texts: Iterable[bytes]) -> int:
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


def write_ids(folder: Path, ids: list[str]) -> None:
    """Write ids in listing order, and the sorted digests by which they are looked up."""
    write_store(folder, "ids", (b'"%b"' % service_id.encode() for service_id in ids))
    digests = np.fromiter(map(id_digest, ids), np.uint64, len(ids))
    order = np.argsort(digests, kind="stable")
    np.save(folder / "ids.digests.npy", digests[order])
    np.save(folder / "ids.ordinals.npy", order.astype(np.uint32))
