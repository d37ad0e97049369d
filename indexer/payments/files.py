"""Payment files before they are parsed: regular files stay in place, pipes are copied."""

from __future__ import annotations

import glob
from collections.abc import Generator, Iterable
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from indexer.compressed import unzip as unzipped
from indexer.errors import IndexerError
from indexer.intake.records import source_errors
from indexer.text import GZIP_MAGIC

CHUNK = 2**17  # bytes; fits the second-level cache of a CPU
FORMATS = (
    "payments are CSV with a header, JSON lines (one object on each line), or Parquet; "
    "text may be compressed with gzip"
)


class PaymentInput(Struct, frozen=True):
    """A source of payments.

    name: of the source in messages
    path: of a file or a pipe
    columns: the name in the file of each column that it names otherwise, such as
        `{"sender": "payer"}`
    chain: the network of payments in a file without a column of it
    """

    name: str
    path: str
    columns: dict[str, str] = {}
    chain: str = ""


class PaymentFile(Struct, kw_only=True):
    """A file of payments, and the first stages of the queries that read it (see `rules`).

    name: the name of the file in messages
    path: a link to the file, or its copy, with a name that DuckDB can open
    copy: a copy of the lines, where DuckDB cannot read them from `path`
    rows: the number of rows
    unit: the word for a row in messages, `line` or `row`
    first_number: the number of the first row in messages
    columns: the name in this file of each recognised column
    all_rows: SQL of the stage `source` with all rows, in order
    picked_rows: SQL of the stage `source` with the rows that the table `picks` lists
    staged: SQL of the stage `staged`
    index: the index of this file among all files
    start: the index of its first row among the rows of all files
    version: the result of `read_version` before the file was read
    """

    name: str
    path: Path
    copy: Path | None = None
    rows: int
    unit: str
    first_number: int = 1
    columns: dict[str, str]
    all_rows: str
    picked_rows: str
    staged: str
    index: int = 0
    start: int = 0
    version: tuple[int, ...] = ()


def link_or_spool(source: PaymentInput, target: Path) -> None:
    """Link `target` to a regular file; copy anything else there, as a pipe is read only once.

    The link gives DuckDB a name in UTF-8 and without wildcards, whatever the file is called.
    Raises SourceError when the file cannot be read, IndexerError when it cannot be copied.
    """
    path = Path(source.path)
    if path.is_file():
        target.symlink_to(path.absolute())
    else:
        write_copy(target, source.name, read_chunks(source.name, path, unzip=False))


def read_chunks(name: str, path: Path, unzip: bool = True) -> Generator[bytes, None, None]:
    """Yield the bytes of a file, a CHUNK at a time.

    Raises SourceError when the file is missing, unreadable or damaged.
    """
    with source_errors(name), path.open("rb") as file:
        content = unzipped(file) if unzip else file
        while chunk := content.read(CHUNK):
            yield chunk


def read_start(name: str, path: Path, unzip: bool = True) -> bytes:
    """Return the first CHUNK of a file."""
    with closing(read_chunks(name, path, unzip)) as chunks:
        return next(chunks, b"")


def is_gzip(name: str, path: Path) -> bool:
    """Whether a file is compressed with gzip."""
    return read_start(name, path, unzip=False).startswith(GZIP_MAGIC)


def read_version(path: Path) -> tuple[int, ...]:
    """Return the device, inode, size and modification time of a file; empty when it is missing."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def write_copy(target: Path, name: str, chunks: Iterable[bytes]) -> None:
    """Write the chunks of a file to its copy; raises IndexerError when the disk is full."""
    try:
        with target.open("wb") as file:
            file.writelines(chunks)
    except OSError as error:
        reason = error.strerror or error
        raise IndexerError(f"{target}: the copy of {name} cannot be written: {reason}") from error


def sql_path(path: Path) -> str:
    """Return a path as an SQL string with its wildcards escaped."""
    return sql_text(glob.escape(str(path)))


def sql_text(text: str) -> str:
    """Return a text as an SQL string."""
    return "'" + text.replace("'", "''") + "'"
