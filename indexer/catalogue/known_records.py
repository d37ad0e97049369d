"""Known records: facts of records that the last build validated, by the hashes of their bytes.

A record whose bytes were read before is not decoded and validated again. Its facts are kept for the
next build in one file, with a checksum (that of a zip archive) and the fingerprint of the program
that derived them: another program may derive others.
"""

from __future__ import annotations

import zipfile
import zlib
from array import array
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from indexer.catalogue.record import Facts, Normalised, normalise, restore
from indexer.record_store import KEY_SIZE, Keys, record_key
from indexer.segments.kept import NOT_KEPT, KeptRecords
from indexer.sources.records import SourceRecord

FILE = "facts.npz"
DIGEST_SIZE = 16  # bytes

Bytes = NDArray[np.bytes_]

_HASHES = np.dtype(f"S{DIGEST_SIZE}")
_TYPES = [_HASHES, np.dtype(np.int64), np.dtype(np.uint8)]
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Facts)


class Stored(NamedTuple):
    """A record whose text the last snapshot has: its facts, and its row among the kept records."""

    facts: Facts
    row: int


class KnownRecordsDamaged(Exception):
    """A file of known records is missing, damaged or of another program."""


class KnownRecords:
    """The facts of the last build, and those that this build used or derived.

    hashes: of the bytes of the records, ascending
    offsets: where the facts of each record start in `facts`, and where the last ones end
    facts: the facts of all records, as MessagePack
    keys: the hashes of their normalised texts, as `KeptRecords` finds them
    """

    def __init__(
        self,
        hashes: Bytes | None = None,
        offsets: NDArray[np.int64] | None = None,
        facts: bytes = b"",
        keys: Keys | None = None,
        kept: KeptRecords | None = None,
    ) -> None:
        self._hashes = np.empty(0, _HASHES) if hashes is None else hashes
        self._offsets = np.zeros(1, np.int64) if offsets is None else offsets
        self._facts = facts
        self._keys = np.empty((0, KEY_SIZE), np.uint8) if keys is None else keys
        self._rows = np.full(len(self._keys), NOT_KEPT, np.int32)
        if kept is not None:
            self._rows = kept.columns.find(self._keys)
        self._used = array("q")
        self._new_hashes = bytearray()
        self._new_offsets = array("q", [0])
        self._new_facts = bytearray()
        self._new_keys = bytearray()

    def normalise(self, record: SourceRecord) -> Normalised:
        """Return what `normalise` returns for a record, and keep it; raises InvalidRecord."""
        if record.fault:
            return normalise(record)
        digest = hash_text(record.text)
        (known,) = self.find([digest])
        if known is not None:
            return restore(record.text, known.facts)
        normalised = normalise(record)
        self.add(digest, encode_facts(normalised.facts), record_key(normalised.text))
        return normalised

    def find(self, digests: Sequence[bytes]) -> list[Stored | None]:
        """Return the facts of the records with these hashes, None for each unknown one."""
        if not len(self._hashes):
            return [None] * len(digests)
        wanted = np.frombuffer(b"".join(digests), _HASHES)
        places = np.minimum(np.searchsorted(self._hashes, wanted), len(self._hashes) - 1)
        is_known = self._hashes[places] == wanted
        known = places[is_known]
        self._used.frombytes(known.astype(np.int64).tobytes())
        facts, decode = self._facts, _decoder.decode
        starts, stops = self._offsets[places].tolist(), self._offsets[places + 1].tolist()
        return [
            Stored(decode(facts[start:stop]), row) if found else None
            for found, start, stop, row in zip(
                is_known.tolist(), starts, stops, self._rows[places].tolist(), strict=True
            )
        ]

    def add(self, digest: bytes, facts: bytes, key: bytes) -> None:
        """Keep the encoded facts of a record, and the hash of its text, for the next build."""
        self._new_hashes += digest
        self._new_keys += key
        self._new_facts += facts
        self._new_offsets.append(len(self._new_facts))

    def write(self, folder: Path, program: str) -> None:
        """Write the facts that this build used or derived, and the fingerprint of the program."""
        used = np.unique(np.frombuffer(self._used, np.int64))
        hashes = np.concatenate([self._hashes[used], np.frombuffer(self._new_hashes, _HASHES)])
        base = len(self._facts)
        new_offsets = base + np.frombuffer(self._new_offsets, np.int64)
        starts = np.concatenate([self._offsets[used], new_offsets[:-1]])
        stops = np.concatenate([self._offsets[used + 1], new_offsets[1:]])
        new_keys = np.frombuffer(self._new_keys, np.uint8).reshape(-1, KEY_SIZE)
        keys = np.concatenate([self._keys[used], new_keys])
        hashes, order = np.unique(hashes, return_index=True)
        starts, stops = starts[order], stops[order]
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(stops - starts)])
        facts = self._facts + self._new_facts
        blob = b"".join(
            facts[start:stop] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
        )
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(
            folder / FILE,
            hashes=hashes,
            offsets=offsets,
            keys=keys[order],
            facts=np.frombuffer(blob, np.uint8),
            program=np.array(program),
        )


def open_known_records(folder: Path, program: str, kept: KeptRecords | None = None) -> KnownRecords:
    """Read the facts that a build of this program wrote to a folder; raises KnownRecordsDamaged.

    Texts are found among the records that are `kept`.
    """
    path = folder / FILE
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            if str(arrays["program"]) != program:
                raise KnownRecordsDamaged(f"{path} was written by another program")
            hashes, offsets, keys, facts = (
                arrays[name] for name in ("hashes", "offsets", "keys", "facts")
            )
    except (OSError, ValueError, TypeError, LookupError, EOFError) as error:
        raise KnownRecordsDamaged(f"{path}: {error}") from error
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, AttributeError) as error:
        raise KnownRecordsDamaged(f"{path}: {error}") from error
    fits = keys.dtype == np.uint8 and keys.shape == (len(hashes), KEY_SIZE)
    if not (fits and _is_consistent(hashes, offsets, facts)):
        raise KnownRecordsDamaged(f"{path} holds other arrays than those of known records")
    return KnownRecords(hashes, offsets, facts.tobytes(), keys, kept)


def hash_text(text: bytes) -> bytes:
    """Return the hash by which a record is known."""
    return blake2b(text, digest_size=DIGEST_SIZE).digest()


def encode_facts(facts: Facts) -> bytes:
    """Encode facts as `KnownRecords` keeps them."""
    return _encoder.encode(facts)


def decode_facts(encoded: Iterable[bytes]) -> list[Facts]:
    """Decode facts that `encode_facts` encoded."""
    return [_decoder.decode(facts) for facts in encoded]


def _is_consistent(hashes: Bytes, offsets: NDArray[np.int64], facts: NDArray[np.uint8]) -> bool:
    """Whether the arrays have the shapes, types and order of known records."""
    return bool(
        [each.dtype for each in (hashes, offsets, facts)] == _TYPES
        and (hashes.ndim, offsets.shape, facts.ndim) == (1, (len(hashes) + 1,), 1)
        and (hashes[1:] > hashes[:-1]).all()
        and (np.diff(offsets) > 0).all()
        and (offsets[0], offsets[-1]) == (0, len(facts))
    )
