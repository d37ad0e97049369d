"""The document of the format is that of the table, and the table is that of a snapshot."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

from service.snapshot.manifest import MANIFEST, read_manifest
from service.snapshot.publication import SNAPSHOTS, read_current
from service.storage.container import SUFFIX, open_arrays
from service.storage.layouts import FILES
from tests.support.running import ROOT
from tools.format_document import document


def test_the_document_is_written_from_the_table() -> None:
    assert (ROOT / "docs" / "format.md").read_text() == document()


def test_the_table_has_every_file_of_a_snapshot_and_no_other(sample: Path) -> None:
    folder = sample / SNAPSHOTS / read_current(sample).id
    names = {*read_manifest(folder).files, MANIFEST}
    described = {name: [each for each in FILES if fnmatchcase(name, each)] for name in names}
    assert all(len(patterns) == 1 for patterns in described.values()), described
    assert {pattern for patterns in described.values() for pattern in patterns} == {*FILES}
    for name, (pattern,) in described.items():
        layout = FILES[pattern].layout
        assert (layout is not None) == name.endswith(SUFFIX)
        if layout is not None:
            open_arrays(folder / name.removesuffix(SUFFIX), layout)
