"""The folder of a Whoosh index, whose files are opened only as they were written.

artifacts/whoosh/<snapshot id>/ has the files of Whoosh; documents.npy, the keys of the documents;
and files.json, the sizes and the SHA-256 of all these.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct
from whoosh import index

from indexer.errors import IndexerError
from indexer.intake.fingerprint import hash_program
from indexer.whoosh_index.schema import SCHEMA
from service.artifacts.publishing import WHOOSH
from service.errors import REBUILD, SnapshotUnavailable
from service.snapshot.manifest import File, check_files, hash_file

DESCRIPTION = "files.json"


class IndexFiles(Struct):
    """The files of an index, and a hash of the program that wrote them."""

    program: str
    files: dict[str, File]


_description = msgspec.json.Decoder(IndexFiles)


def open_whoosh_index(artifacts: Path, snapshot_id: str) -> index.FileIndex:
    """Open the index of a snapshot to be read; raises IndexerError or SnapshotDamaged."""
    folder = artifacts / WHOOSH / snapshot_id
    check_index(folder)
    return index.open_dir(str(folder), readonly=True, schema=SCHEMA)


def check_index(folder: Path) -> None:
    """Check that an index is whole and of this program.

    Whoosh unpickles its files, and unpickling runs code, so that nothing is opened before. Raises
    IndexerError or SnapshotDamaged.
    """
    path = folder / DESCRIPTION
    try:
        description = _description.decode(path.read_bytes())
        present = {each.name for each in folder.iterdir() if not each.is_symlink()}
    except FileNotFoundError as error:
        raise IndexerError(f"{folder} holds no Whoosh index; {REBUILD}") from error
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise IndexerError(f"{path} cannot be read: {error}; {REBUILD}") from error
    if description.program != hash_program():
        raise IndexerError(f"another version of this program wrote {folder}; {REBUILD}")
    if unknown := present ^ {DESCRIPTION, *description.files}:
        raise IndexerError(f"{folder / min(unknown)} is not what was written; {REBUILD}")
    check_files(folder, description.files)


def is_whole_index(folder: Path) -> bool:
    """Return whether an index is whole and of this program."""
    with suppress(IndexerError, SnapshotUnavailable):
        check_index(folder)
        return True
    return False


def describe_index(folder: Path) -> None:
    """Write the description of an index."""
    paths = sorted(path for path in folder.iterdir() if path.name != DESCRIPTION)
    files = {path.name: hash_file(path) for path in paths}
    described = msgspec.json.encode(IndexFiles(hash_program(), files))
    (folder / DESCRIPTION).write_bytes(described)
