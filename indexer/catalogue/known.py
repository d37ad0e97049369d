"""Known results: what the last build read in texts, which this one need not read again.

The key of a result is a hash of the text and of all else that decides it but the program: the rules
and the kind of the source. Results that depend on the time have none.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import blake2b, sha256
from pathlib import Path

import msgspec

from indexer.catalogue.records import Record
from indexer.errors import IndexerError
from indexer.options import Kind, Policy
from indexer.record_store import KEY_SIZE
from service.storage.container import SUFFIX

FILE = "results"
SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA page_size = 32768;
CREATE TABLE results (key BLOB, result BLOB, is_record INTEGER);
BEGIN;
"""
INDEX = "CREATE INDEX results_by_key ON results (key)"
ATTACH = "ATTACH ? AS last"
FIND = "SELECT result, is_record FROM last.results WHERE key = ?"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Record).decode


class KnownResults:
    """Results of texts: those of the last build, and those that are left for the next one."""

    def __init__(self, connection: sqlite3.Connection, last: Path | None) -> None:
        self._execute, self._has_last = connection.execute, False
        if last is not None:
            with suppress(sqlite3.Error):
                self._execute(ATTACH, [f"{last.absolute().as_uri()}?immutable=1"])
                self._has_last = True
        connection.executescript(SCHEMA)

    def find(self, key: bytes) -> bytes | Record | None:
        """Return a result of the last build, and leave it for the next one; None without one."""
        row = self._execute(FIND, [key]).fetchone() if self._has_last else None
        if row is None:
            return None
        self._execute("INSERT INTO results VALUES (?, ?, ?)", (key, *row))
        return _decode(row[0]) if row[1] else bytes(row[0])

    def add(self, key: bytes, result: bytes | Record) -> None:
        """Leave a result for the next build: a record, or the bytes of a resource."""
        is_record = isinstance(result, Record)
        values = key, _encode(result) if is_record else result, is_record
        self._execute("INSERT INTO results VALUES (?, ?, ?)", values)


class Keys:
    """The keys of texts of a source of this kind, by these rules."""

    def __init__(self, policy: Policy, kind: Kind | None) -> None:
        self._base = blake2b(sha256(repr((policy, kind)).encode()).digest(), digest_size=KEY_SIZE)

    def __call__(self, text: bytes) -> bytes:
        """Return the key of a text."""
        digest = self._base.copy()
        digest.update(text)
        return digest.digest()


@contextmanager
def open_results(folder: Path, last: Path | None) -> Iterator[KnownResults]:
    """Create the file FILE with SUFFIX in a folder; a fault of the disk raises IndexerError.

    last: the file of the last build, if there is one, which nobody has changed since
    """
    target = (folder / (FILE + SUFFIX)).absolute().as_uri()
    try:
        with closing(sqlite3.connect(target, uri=True, isolation_level=None)) as connection:
            yield KnownResults(connection, last)
            connection.execute(INDEX)
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise IndexerError(f"what was read cannot be kept on disk: {error}") from error
