"""The files of a Whoosh index, which are unpickled only as they were written."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest

from indexer.errors import IndexerError
from indexer.whoosh_index.files import DESCRIPTION, open_whoosh_index
from service.artifacts.publishing import WHOOSH
from service.errors import SnapshotDamaged
from tests.support.artifacts import DAMAGES, flip_a_bit
from tests.support.whoosh_index import ids_of, write_index

SERVICES = {"a": ("Tides", "of the sea", "data"), "b": ("Rain", "", "")}
FAULTS = (IndexerError, SnapshotDamaged)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an index of the snapshot `one`, from which nothing may be unpickled."""

    def refuse(*_: object) -> None:
        raise AssertionError("unpickled")

    write_index(tmp_path, "one", SERVICES)
    monkeypatch.setattr("pickle.loads", refuse)
    monkeypatch.setattr("pickle.load", refuse)
    monkeypatch.setattr("whoosh.index.open_dir", refuse)
    return tmp_path / WHOOSH / "one"


def test_an_index_is_opened_as_it_was_written(tmp_path: Path) -> None:
    write_index(tmp_path, "one", SERVICES)
    assert ids_of(tmp_path, "one", "sea") == {"a"}


@pytest.mark.parametrize("name", ["*.toc", "*.seg", "documents.npy"])
def test_a_file_with_a_flipped_bit_is_not_opened(written: Path, name: str) -> None:
    (path,) = written.glob(name)
    flip_a_bit(path)
    with pytest.raises(FAULTS, match=r"is not what was published; rebuild"):
        open_whoosh_index(written.parents[1], "one")


@pytest.mark.parametrize("name", ["*.toc", "*.seg", "documents.npy", DESCRIPTION])
def test_a_missing_file_is_reported(written: Path, name: str) -> None:
    (path,) = written.glob(name)
    path.unlink()
    with pytest.raises(FAULTS, match="rebuild"):
        open_whoosh_index(written.parents[1], "one")


@pytest.mark.parametrize("name", ["_MAIN_9.toc", "MAIN_9.seg", "MAIN_WRITELOCK", "notes.txt"])
def test_a_folder_with_another_file_is_not_opened(written: Path, name: str) -> None:
    (written / name).write_bytes(pickle.dumps("another"))
    with pytest.raises(IndexerError, match=f"{name} is not what was written; rebuild"):
        open_whoosh_index(written.parents[1], "one")


def test_a_link_to_a_file_is_not_opened(written: Path, tmp_path: Path) -> None:
    (path,) = written.glob("*.toc")
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    with pytest.raises(IndexerError, match="is not what was written"):
        open_whoosh_index(written.parents[1], "one")


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_description_is_reported(written: Path, damage: str) -> None:
    path = written / DESCRIPTION
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    with pytest.raises(FAULTS, match="rebuild"):
        open_whoosh_index(written.parents[1], "one")


def test_a_snapshot_without_an_index_is_reported(written: Path) -> None:
    shutil.rmtree(written)
    with pytest.raises(IndexerError, match="one holds no Whoosh index; rebuild"):
        open_whoosh_index(written.parents[1], "one")


def test_an_index_of_another_program_is_not_opened(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.whoosh_index.files.hash_program", lambda: "another")
    with pytest.raises(IndexerError, match="another version of this program wrote"):
        open_whoosh_index(written.parents[1], "one")
