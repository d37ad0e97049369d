"""Vectors of the texts of a catalogue by the transformer, to be looked up by several processes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from indexer.progress import Advance

EMBEDDED = 384
"""Dimensions of the vectors of the transformer."""
KEY_BYTES = 16
CHUNK = 1024  # texts

Halves = npt.NDArray[np.float16]
Embed = Callable[[Mapping[bytes, str]], Halves]


def text_key(text: str) -> bytes:
    """Return the hash of a text that its vector is found by."""
    return hashlib.sha256(text.encode()).digest()[:KEY_BYTES]


def write_embeddings(
    folder: Path, texts: Iterable[str], embed: Embed, advance: Advance = lambda _: None
) -> None:
    """Write the files of `Embeddings` of texts, which may repeat.

    `embed` returns the vectors of texts by their keys, float16[texts, EMBEDDED].
    """
    texts = iter(texts)
    keys: dict[bytes, None] = {}
    unsorted = folder / "unsorted"
    with unsorted.open("wb") as file:
        while chunk := list(islice(texts, CHUNK)):
            fresh = {key: text for text in chunk if (key := text_key(text)) not in keys}
            embed(fresh).tofile(file)
            keys.update(dict.fromkeys(fresh))
            advance(len(chunk))
    hashes = np.array(list(keys), f"S{KEY_BYTES}")
    order = np.argsort(hashes)
    np.save(folder / "hashes.npy", hashes[order])
    vectors = np.lib.format.open_memmap(
        folder / "vectors.npy", "w+", np.dtype(np.float16), (len(hashes), EMBEDDED)
    )
    if len(hashes):
        rows = np.memmap(unsorted, np.float16, "r", shape=vectors.shape)
        for start in range(0, len(order), CHUNK):
            vectors[start : start + CHUNK] = rows[order[start : start + CHUNK]]
    vectors.flush()
    unsorted.unlink()


class Embeddings:
    """The vectors of texts of a folder.

    `hashes.npy`, bytes[texts], are the sorted keys of the texts, and `vectors.npy`,
    float16[texts, EMBEDDED], their vectors.
    """

    def __init__(self, folder: Path) -> None:
        self._hashes: npt.NDArray[np.bytes_] = np.load(folder / "hashes.npy")
        self._vectors: Halves = np.load(folder / "vectors.npy", mmap_mode="r")

    def of(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return the vectors of texts, float32[texts, EMBEDDED]; zeros for an empty text.

        Raises KeyError for a text that was not embedded.
        """
        keys = np.array([text_key(text) for text in texts], f"S{KEY_BYTES}")
        positions = self._hashes.searchsorted(keys)
        positions[positions == len(self._hashes)] = 0
        if len(texts) and not (len(self._hashes) and (self._hashes[positions] == keys).all()):
            raise KeyError("a text was not embedded")
        vectors = self._vectors[positions].astype(np.float32)
        vectors[[not text.strip() for text in texts]] = 0
        return vectors
