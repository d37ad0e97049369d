"""Vectors by the transformer that are kept between builds: a text is embedded once."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt

from indexer.encoder.embeddings import CHUNK, EMBEDDED, Halves
from indexer.errors import EmbeddingsUnavailable
from indexer.progress import Advance

TIMEOUT = 60.0  # seconds that another build may hold the database
UNUSED_SHARE = 0.5
"""Share of vectors that no text of the catalogue has, above which these are removed."""
MAGIC, APPLICATION_ID = b"SQLite format 3\0", 0x52434456
"""Bytes 0 to 15 and 68 to 71 of a database: of SQLite, and one of ours."""
HEADER_BYTES = 72
VECTOR_BYTES = 2 * EMBEDDED
SELECT = "SELECT vector FROM vectors WHERE key = ? AND length(vector) = ?"

T = TypeVar("T")


def check_embeddings_file(path: Path) -> None:
    """Check that a file is a database of ours, empty or missing.

    Raises EmbeddingsUnavailable.
    """
    try:
        with path.open("rb") as file:
            header = file.read(HEADER_BYTES)
    except FileNotFoundError:
        return
    except OSError as error:
        raise EmbeddingsUnavailable(f"{path}: {error.strerror}; name another file") from error
    is_ours = header.startswith(MAGIC) and header[68:] == APPLICATION_ID.to_bytes(4)
    if header and not is_ours:
        raise EmbeddingsUnavailable(f"{path} is no file of vectors; name another with --embeddings")


class EmbeddingCache:
    """The vectors of one model by keys, in an SQLite database.

    Vectors of another model are removed, and a damaged database is replaced; a file that is not
    ours stays. Raises EmbeddingsUnavailable.
    """

    def __init__(self, path: Path, model: str) -> None:
        check_embeddings_file(path)
        self._path = path
        self._used: set[bytes] = set()
        with self._errors():
            try:
                self._database = _open(path, model)
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):  # locked, full or not writable
                    raise
                path.unlink()
                self._database = _open(path, model)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(sqlite3.Error):
            self._database.close()

    def vectors(
        self,
        items: Mapping[bytes, T],
        embed: Callable[[Sequence[T]], npt.NDArray[np.float32]],
        advance: Advance = lambda _: None,
    ) -> Halves:
        """Return the vectors of items by their keys, float16[items, EMBEDDED], in their order.

        `embed` computes those that are missing, and they are stored in chunks.
        """
        self._used.update(items)
        vectors: dict[bytes, bytes] = {}
        remaining = iter(items.items())
        while chunk := dict(islice(remaining, CHUNK)):
            with self._errors():
                vectors |= self._read(chunk)
                missing = {key: item for key, item in chunk.items() if key not in vectors}
                if missing:
                    computed = embed(list(missing.values())).astype(np.float16)
                    new = {key: row.tobytes() for key, row in zip(missing, computed, strict=True)}
                    with self._database:
                        self._database.executemany(
                            "REPLACE INTO vectors VALUES (?, ?)", new.items()
                        )
                    vectors |= new
            advance(len(chunk))
        joined = b"".join([vectors[key] for key in items])
        return np.frombuffer(joined, np.float16).reshape(len(items), EMBEDDED)

    def prune(self) -> None:
        """Remove the vectors that were not used, where they are many, if that is possible now."""
        with suppress(sqlite3.Error):
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
                if np.isfinite(np.frombuffer(vector, np.float16)).all():
                    yield key, vector

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise EmbeddingsUnavailable(
                f"the vectors of texts cannot be kept in {self._path}: {error}; try again, or name "
                "another file with --embeddings"
            ) from error


def _open(path: Path, model: str) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=TIMEOUT, isolation_level=None)
    try:
        _check(database)
        database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        database.execute("BEGIN IMMEDIATE")  # two builds may start at once
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
    database.isolation_level = "DEFERRED"
    return database


def _check(database: sqlite3.Connection) -> None:
    (fault,) = database.execute("PRAGMA quick_check(1)").fetchone()
    if fault != "ok":
        raise sqlite3.DatabaseError(fault)
