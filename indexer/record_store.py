"""Writing and reading back the stores of JSON records, and the table of ids."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Raw

from service.storage.hash_table import text_hash, write_hash_table

_fields = msgspec.json.Decoder(dict[str, Raw])
_list = msgspec.json.Decoder(list[Raw])


def write_record_store(folder: Path, name: str, texts: Iterable[bytes]) -> int:
    """Write the files of a `RecordStore`; returns the count of texts."""
    offsets = array("q", [0])
    with (folder / f"{name}.json").open("wb") as file:
        for text in texts:
            if len(offsets) > 1:
                file.write(b",")
            file.write(text)
            offsets.append(offsets[-1] + len(text) + 1)
    np.save(folder / f"{name}.offsets.npy", np.asarray(offsets, np.int64))
    return len(offsets) - 1


def read_record_store(folder: Path, name: str, span: range | None = None) -> Iterator[bytes]:
    """Yield the texts of a store in order, or those of a span of ordinals.

    The file is read and not mapped: pages of a mapping would count as memory of the process.
    """
    offsets = np.load(folder / f"{name}.offsets.npy", allow_pickle=False)
    if span is not None:
        offsets = offsets[span.start : span.stop + 1]
    with (folder / f"{name}.json").open("rb") as file:
        file.seek(int(offsets[0]))
        for start, stop in pairwise(offsets.tolist()):
            yield file.read(stop - start - 1)
            file.read(1)


def write_records(folder: Path, texts: Iterable[bytes]) -> None:
    """Write the stored services in listing order, and a hash of each (uint64) for entity tags."""
    tags = array("Q")

    def hashed() -> Iterator[bytes]:
        for text in texts:
            tags.append(int.from_bytes(blake2b(text, digest_size=8).digest(), "little"))
            yield text

    write_record_store(folder, "records", hashed())
    np.save(folder / "tags.npy", np.asarray(tags, np.uint64))


def write_summaries(folder: Path, texts: Iterable[bytes]) -> None:
    """Write the services with empty `endpoints` and an `endpointCount`, for short answers."""
    write_record_store(folder, "summaries", map(_summarise, texts))


def write_ids(folder: Path, ids: list[str]) -> None:
    """Write the files of an `IdTable`: ids in listing order, and ordinals by the hashes of ids."""
    write_record_store(folder, "ids", (b'"%b"' % service_id.encode() for service_id in ids))
    hashes = np.fromiter(map(text_hash, ids), np.uint64, len(ids))
    write_hash_table(folder / "ids", hashes, np.arange(len(ids), dtype=np.int32))


def _summarise(text: bytes) -> bytes:
    fields = _fields.decode(text)
    count = len(_list.decode(fields["endpoints"]))
    return msgspec.json.encode(fields | {"endpoints": Raw(b"[]"), "endpointCount": count})
