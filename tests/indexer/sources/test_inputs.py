"""Resolving the options of a build to files."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexer.errors import SourceError
from indexer.options import BuildOptions, Kind
from indexer.progress import Progress
from indexer.sources.catalogue_file import name_source
from indexer.sources.inputs import gather_inputs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.jsonl", "a.json.gz", "c.ndjson", "notes.txt", "[d].json"):
        (tmp_path / name).touch()
    return tmp_path


def test_a_folder_is_resolved_to_its_json_files_by_name(folder: Path) -> None:
    options = BuildOptions(
        sources=(name_source(str(folder)), name_source(str(folder), Kind.OVERLAY)),
        out=folder / "out",
    )
    inputs = gather_inputs(options, Progress())
    names = ["[d].json", "a.json.gz", "b.jsonl", "c.ndjson"]
    assert [source.path for source in inputs.sources] == [str(folder / name) for name in names]
    assert [each.path for each in inputs.overlays] == [str(folder / name) for name in names]


def test_patterns_match_each_file_once_and_existing_files_are_not_patterns(
    folder: Path,
) -> None:
    names = ("*.jsonl", "[bc].*", "[d].json")
    payments = tuple(str(folder / name) for name in names)
    options = BuildOptions(
        sources=tuple(name_source(name, Kind.PAYMENTS) for name in payments), out=folder / "out"
    )
    inputs = gather_inputs(options, Progress())
    matches = [str(folder / name) for name in ("b.jsonl", "c.ndjson", "[d].json")]
    assert [each.path for each in inputs.payments] == matches


def test_a_pattern_that_matches_nothing_is_an_error(folder: Path) -> None:
    options = BuildOptions(sources=(name_source(str(folder / "*.csv"), Kind.PAYMENTS),))
    with pytest.raises(SourceError, match=r"\*\.csv: there is no such file, and none matches it"):
        gather_inputs(options, Progress())
