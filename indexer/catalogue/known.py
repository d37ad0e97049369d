"""Known results: what the last build made of texts, which this one need not make again.

The key of a result is a hash of all that decides it but the program.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path

from indexer.errors import IndexerError
from indexer.record_store import KEY_SIZE

FILE = "results.sqlite"
SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA page_size = 32768;
BEGIN;
CREATE TABLE results (key BLOB, result BLOB);
"""
INDEX = "CREATE INDEX results_by_key ON results (key)"
INSERT = "INSERT INTO results VALUES (?, ?)"
FIND = "SELECT result FROM last.results WHERE key = ?"


class KnownResults:
    """Results by their keys: those of the last build, and those that are left for the next one."""

    def __init__(self, connection: sqlite3.Connection, last: Path | None) -> None:
        self._execute, self._has_last = connection.execute, False
        if last is not None:
            with suppress(sqlite3.Error):
                uri = f"{last.absolute().as_uri()}?immutable=1"
                self._execute("ATTACH ? AS last", [uri])
                self._execute(FIND, [b""])
                self._has_last = True
        connection.executescript(SCHEMA)

    def find(self, key: bytes) -> bytes | None:
        """Return a result of the last build, and leave it for the next one; None without one."""
        row = self._execute(FIND, [key]).fetchone() if self._has_last else None
        if row is None:
            return None
        self.add(key, row[0])
        return bytes(row[0])

    def add(self, key: bytes, result: bytes) -> None:
        """Leave a result for the next build."""
        self._execute(INSERT, (key, result))


class ResultKeys:
    """The keys of contents whose results are decided by these values too."""

    def __init__(self, *values: object) -> None:
        base = blake2b(repr(values).encode()).digest()
        self._hash = blake2b(base, digest_size=KEY_SIZE)

    def __call__(self, content: bytes) -> bytes:
        """Return the key of the result of a content."""
        copied = self._hash.copy()
        copied.update(content)
        return copied.digest()


@contextmanager
def open_results(folder: Path, last: Path | None) -> Iterator[KnownResults]:
    """Create FILE in a folder; a fault of the disk raises IndexerError.

    last: the file of the last build, if there is one, which nobody has changed since
    """
    target = (folder / FILE).absolute().as_uri()
    with _faults_of_disk():
        connection = sqlite3.connect(target, uri=True, isolation_level=None)
    with closing(connection):
        with _faults_of_disk():
            results = KnownResults(connection, last)
        yield results
        with _faults_of_disk():
            connection.execute(INDEX)
            connection.execute("COMMIT")


@contextmanager
def _faults_of_disk() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise IndexerError(f"results cannot be kept on disk: {error}") from error
