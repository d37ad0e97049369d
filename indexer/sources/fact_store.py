"""Facts of records by the hashes of their bytes, from the last build and from this one.

A record whose bytes were read before is not decoded and validated again. The facts that a build
used or derived are one file for the next build, with the name of the program that derived them:
another program may derive others.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from indexer.record_store import KEY_SIZE, Keys, Spool
from service.errors import SnapshotDamaged
from service.storage.container import (
    Array,
    Arrays,
    Layout,
    open_arrays,
    writing_arrays,
)

DIGEST_SIZE = 16  # bytes
UNKNOWN = -1
NO_KEY = bytes(KEY_SIZE)
RUN = 256  # facts that are copied together

LAYOUT = Layout(
    "facts of records",
    program=Array("|u1", "characters", "the name of the program"),
    hashes=Array("|u1", f"records, {DIGEST_SIZE}", "of the bytes of the records"),
    order=Array("<i8", "records", "the numbers of the records by their hashes"),
    keys=Array("|u1", f"records, {KEY_SIZE}", "hashes of the normalised texts, zeros without one"),
    offsets=Array("<i8", "records+1", "of the facts of each record"),
    facts=Array("|u1", "bytes", "the facts of all records, as MessagePack"),
)

_HASHES = np.dtype(f"S{DIGEST_SIZE}")


class FactsDamaged(Exception):
    """A file of facts is missing, damaged or of another program."""


class FactStore:
    """The facts of the last build, and those that this build derives, in a file.

    Facts are numbered: those of the last build before the new ones. Builds read records in much the
    same order, so that the facts for the next build are copied in long runs.
    """

    def __init__(self, arrays: Arrays | None = None, folder: Path | None = None) -> None:
        arrays = arrays or {
            "hashes": np.empty((0, DIGEST_SIZE), np.uint8),
            "keys": np.empty((0, KEY_SIZE), np.uint8),
            "order": np.empty(0, np.int64),
            "offsets": np.zeros(1, np.int64),
            "facts": np.empty(0, np.uint8),
        }
        self._digests = arrays["hashes"].reshape(-1).data
        self._hashes = arrays["hashes"].view(_HASHES).ravel()
        self._order = arrays["order"]
        self._ascending = self._hashes[self._order]
        self._count = len(self._hashes)
        self._offsets = array("q", arrays["offsets"].tobytes())
        self._facts = arrays["facts"].data
        self.keys: Keys = arrays["keys"]
        """The keys of the facts of the last build."""
        self._used = array("q")
        self._new = Spool(folder)
        self._new_hashes, self._new_keys = bytearray(), bytearray()

    def find(self, digests: Sequence[bytes]) -> list[int]:
        """Return the numbers of the facts with these hashes, UNKNOWN for each other one."""
        if not self._count:
            return [UNKNOWN] * len(digests)
        wanted = np.frombuffer(b"".join(digests), _HASHES)
        places = np.minimum(np.searchsorted(self._ascending, wanted), self._count - 1)
        is_known = self._ascending[places] == wanted
        numbers = self._order[places]
        self._used.frombytes(numbers[is_known].tobytes())
        known: list[int] = np.where(is_known, numbers, UNKNOWN).tolist()
        return known

    def add(self, digest: bytes, facts: bytes, key: bytes = NO_KEY) -> int:
        """Keep facts for the next build, under the hash of their record; returns their number.

        `key` is the hash of the normalised text.
        """
        self._new_hashes += digest
        self._new_keys += key
        return self._count + self._new.add(facts)

    def read(self, number: int) -> bytes | memoryview:
        """Return the facts of a number."""
        new = number - self._count
        if new < 0:
            return self._facts[self._offsets[number] : self._offsets[number + 1]]
        return self._new.read(new)

    def digest(self, number: int) -> bytes:
        """Return the hash of the record whose facts have this number."""
        new = number - self._count
        if new < 0:
            return bytes(self._digests[number * DIGEST_SIZE : (number + 1) * DIGEST_SIZE])
        return bytes(self._new_hashes[new * DIGEST_SIZE : (new + 1) * DIGEST_SIZE])

    def write(self, path: Path, program: str) -> None:
        """Write the facts that this build used or derived, and the name of the program."""
        used = np.unique(np.frombuffer(self._used, np.int64))
        numbers = np.concatenate([used, self._count + np.arange(len(self._new))])
        hashes = np.concatenate([self._hashes[used], np.frombuffer(self._new_hashes, _HASHES)])
        new_keys = np.frombuffer(self._new_keys, np.uint8).reshape(-1, KEY_SIZE)
        keys = np.concatenate([self.keys[used], new_keys])
        _, firsts = np.unique(hashes, return_index=True)
        firsts.sort()
        hashes, keys, numbers = hashes[firsts], keys[firsts], numbers[firsts]
        sizes = np.concatenate([np.diff(self._offsets), np.diff(self._new.offsets)])[numbers]
        with writing_arrays(path, LAYOUT) as writer:
            writer.write("program", np.frombuffer(program.encode(), np.uint8))
            writer.write("hashes", hashes.view(np.uint8).reshape(-1, DIGEST_SIZE))
            writer.write("order", np.argsort(hashes))
            writer.write("keys", keys)
            writer.write("offsets", np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))
            writer.stream("facts", self._runs(numbers))

    def _runs(self, numbers: NDArray[np.int64]) -> Iterator[bytes | memoryview]:
        """Yield the facts of ascending numbers, of consecutive ones together."""
        for run in np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1):
            for first in range(0, len(run), RUN):
                some = run[first : first + RUN]
                known, new = some[some < self._count], some[some >= self._count] - self._count
                if len(known):
                    yield self._facts[self._offsets[known[0]] : self._offsets[known[-1] + 1]]
                if len(new):
                    yield self._new.read(int(new[0]), len(new))


def open_facts(path: Path, program: str, spool: Path | None = None) -> FactStore:
    """Map the facts that a build of this program wrote; raises FactsDamaged.

    New facts are spooled to a file without a name in the folder `spool`.
    """
    try:
        arrays = open_arrays(path, LAYOUT)
    except SnapshotDamaged as error:
        raise FactsDamaged(str(error)) from error
    if arrays["program"].tobytes() != program.encode():
        raise FactsDamaged(f"{path} was written by another program")
    return FactStore(arrays, spool)


def hash_text(text: bytes, method: str = "") -> bytes:
    """Return the hash by which a record is known, or a resource that is read with a method."""
    content = b"%b\n%b" % (method.encode(), text) if method else text
    return blake2b(content, digest_size=DIGEST_SIZE).digest()
