"""Vectors of texts by the transformer, kept between builds: a text is embedded once."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt

from indexer.errors import EmbeddingsUnavailable
from indexer.progress import Advance

LONGEST_TEXT = 4000
"""Characters of a title or text that are embedded: the transformer does not read as far."""
KEY_BYTES = 16
CHUNK = 1024  # texts; those of a chunk are kept if the build is killed later
TIMEOUT = 60.0  # seconds that another build may hold the database
UNUSED_SHARE = 0.5
"""Share of kept vectors that no text of the catalogue has, above which these are removed."""

DIMENSIONS = 384
VECTOR_BYTES = 2 * DIMENSIONS
SELECT = "SELECT vector FROM vectors WHERE key = ? AND length(vector) = ?"

Halves = npt.NDArray[np.float16]
Keys = npt.NDArray[np.bytes_]
T = TypeVar("T")
Embed = Callable[[Sequence[T]], npt.NDArray[np.float32]]


def text_key(text: str) -> bytes:
    """Return the hash of a text that its vector is kept by."""
    return hashlib.sha256(text.encode()).digest()[:KEY_BYTES]


class EmbeddingCache:
    """The vectors of one model, by the hash of their text, in an SQLite database.

    A database of another model, or one that cannot be read, is replaced. Raises
    EmbeddingsUnavailable where it cannot be written.
    """

    def __init__(self, path: Path, model: str) -> None:
        self._path = path
        self._used: set[bytes] = set()
        with self._errors():
            try:
                self._database = _open(path, model)
            except sqlite3.DatabaseError:
                path.unlink(missing_ok=True)
                self._database = _open(path, model)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(sqlite3.Error):
            self._database.close()

    def vectors(self, texts: Mapping[bytes, T], embed: Embed[T]) -> Halves:
        """Return the vectors of texts by their keys, float16[texts, dimensions], in their order.

        `embed` computes those that are not kept.
        """
        self._used.update(texts)
        with self._errors():
            kept = dict(self._read(texts))
            missing = {key: text for key, text in texts.items() if key not in kept}
            if missing:
                computed = embed(list(missing.values())).astype(np.float16)
                new = {key: row.tobytes() for key, row in zip(missing, computed, strict=True)}
                with self._database:
                    self._database.executemany("REPLACE INTO vectors VALUES (?, ?)", new.items())
                kept |= new
        joined = b"".join([kept[key] for key in texts])
        return np.frombuffer(joined, np.float16).reshape(len(texts), DIMENSIONS)

    def prune(self) -> None:
        """Remove the vectors that were not used, where they are many."""
        with self._errors():
            (count,) = self._database.execute("SELECT count(*) FROM vectors").fetchone()
            if count * (1 - UNUSED_SHARE) <= len(self._used):
                return
            with self._database:
                self._database.execute("CREATE TEMP TABLE used (key BLOB PRIMARY KEY)")
                keys = ((key,) for key in self._used)
                self._database.executemany("INSERT INTO used VALUES (?)", keys)
                self._database.execute(
                    "DELETE FROM vectors WHERE key NOT IN (SELECT key FROM used)"
                )
            self._database.execute("VACUUM")

    def _read(self, keys: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        for key in keys:
            for (vector,) in self._database.execute(SELECT, (key, VECTOR_BYTES)):
                yield key, vector

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise EmbeddingsUnavailable(
                f"{self._path}: {error}; the vectors of texts are kept there: make room, or name "
                "another file with --embeddings"
            ) from error


def embed_texts(
    folder: Path, texts: Iterable[str], cache: EmbeddingCache, embed: Embed[str], advance: Advance
) -> None:
    """Write the files of `Embeddings` of texts, which may repeat."""
    texts = iter(texts)
    keys: dict[bytes, None] = {}
    with (folder / "unsorted").open("wb") as file:
        while chunk := list(islice(texts, CHUNK)):
            fresh = {key: text for text in chunk if (key := text_key(text)) not in keys}
            if fresh:
                cache.vectors(fresh, embed).tofile(file)
            keys.update(dict.fromkeys(fresh))
            advance(len(chunk))
    hashes = np.array(list(keys), f"S{KEY_BYTES}")
    vectors = np.fromfile(folder / "unsorted", np.float16).reshape(len(hashes), DIMENSIONS)
    (folder / "unsorted").unlink()
    order = np.argsort(hashes)
    np.save(folder / "hashes.npy", hashes[order])
    np.save(folder / "vectors.npy", vectors[order])
    cache.prune()


class Embeddings:
    """The vectors of texts of a folder.

    `hashes.npy`, bytes[texts], are the sorted keys of the texts, and `vectors.npy`,
    float16[texts, dimensions], their vectors.
    """

    def __init__(self, folder: Path) -> None:
        self._hashes: Keys = np.load(folder / "hashes.npy")
        self._vectors: Halves = np.load(folder / "vectors.npy", mmap_mode="r")

    def of(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return the vectors of texts, float32[texts, dimensions]; zeros for an empty text."""
        keys = np.array([text_key(text) for text in texts], f"S{KEY_BYTES}")
        vectors = self._vectors[self._hashes.searchsorted(keys)].astype(np.float32)
        vectors[[not text.strip() for text in texts]] = 0
        return vectors


def _check(database: sqlite3.Connection) -> None:
    (fault,) = database.execute("PRAGMA quick_check(1)").fetchone()
    if fault != "ok":
        raise sqlite3.DatabaseError(fault)


def _open(path: Path, model: str) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=TIMEOUT)
    try:
        _check(database)
        with database:
            database.execute("CREATE TABLE IF NOT EXISTS model (name TEXT)")
            if database.execute("SELECT name FROM model").fetchall() != [(model,)]:
                database.execute("DROP TABLE IF EXISTS vectors")
                database.execute("DELETE FROM model")
                database.execute("INSERT INTO model VALUES (?)", (model,))
            database.execute(
                "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB) "
                "WITHOUT ROWID"
            )
    except BaseException:
        with suppress(sqlite3.Error):
            database.close()
        raise
    return database
