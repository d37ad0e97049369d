"""The document of the format names the files of a snapshot."""

from __future__ import annotations

import re
from pathlib import Path

from service.snapshot.manifest import MANIFEST, read_manifest
from service.snapshot.publication import SNAPSHOTS, read_current
from tests.support.running import ROOT

ROW = re.compile(r"^\| `(.+)` \| .+ \|$", re.MULTILINE)


def test_the_document_names_every_file_of_a_snapshot_and_no_other(sample: Path) -> None:
    folder = sample / SNAPSHOTS / read_current(sample).id
    names = ROW.findall((ROOT / "docs" / "format.md").read_text())
    assert sorted(names) == sorted([*read_manifest(folder).files, MANIFEST])
