"""`query` on the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from indexer.__main__ import main
from service.artifacts.publishing import WHOOSH
from tests.support.artifacts import current, flip_a_bit
from tests.support.running import Build, service

RECORDS = [
    service(
        "tides",
        name="Tide\u202e\n watch",
        description="a premium for tides of all the seas",
        category="Data",
    ),
    service("b-rain", name="Rain", description="premium rain and rain", category="Weather data"),
    service("a-rain", name="Rain", description="premium rain and rain", category="Weather data"),
    service("menus", name="Menus", description="food"),
]


@pytest.fixture
def published(artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]) -> Path:
    """A catalogue with its index."""
    assert build(RECORDS) == 0
    capsys.readouterr()
    return artifacts


def query(artifacts: Path, *arguments: str) -> int:
    return main(["query", *arguments, "--artifacts", str(artifacts)])


def test_ids_and_names_are_printed_the_best_first_and_equals_by_id(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert query(published, "description:premium AND category:data") == 0
    assert capsys.readouterr().out.splitlines() == [
        "a-rain  Rain",
        "b-rain  Rain",
        "tides   Tide\\u202e watch",
    ]


def test_several_arguments_are_one_query(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert query(published, "premium", "AND", "NOT", "category:weather") == 0
    assert capsys.readouterr().out.split() == ["tides", "Tide\\u202e", "watch"]


def test_ids_are_printed_alone_for_lists(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert query(published, "premium", "--ids", "--limit", "2") == 0
    assert capsys.readouterr().out == "a-rain\nb-rain\n"


def test_json_has_the_count_of_all_matches(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert query(published, "tide* OR food", "--json", "--limit", "1") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["total"] == 2
    assert len(answer["services"]) == 1
    assert query(published, "id:tides", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer == {"total": 1, "services": [{"id": "tides", "name": "Tide\u202e\n watch"}]}


def test_a_query_without_matches_prints_no_lines(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for form in ([], ["--ids"]):
        assert query(published, "nothing", *form) == 0
        assert capsys.readouterr() == ("", "no service matches\n")
    assert query(published, "harbours*") == 0  # terms are stems
    assert "patterns are compared with the stems of words" in capsys.readouterr().err
    assert query(published, "nothing", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"total": 0, "services": []}


@pytest.mark.parametrize("text", ['"premium tides"', "title:rain", "rain AND", "("])
def test_a_query_that_cannot_be_answered_is_a_misuse(
    published: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert query(published, text) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("error: ")


@pytest.mark.parametrize("limit", ["0", "-1", "many", "²"])
def test_a_limit_is_a_number_from_1(
    published: Path, limit: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as error:
        query(published, "rain", f"--limit={limit}")
    assert error.value.code == 2
    assert "argument --limit: expected a number from 1" in capsys.readouterr().err


def test_a_folder_without_a_snapshot_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert query(tmp_path, "rain") == 1
    assert "holds no snapshot; run" in capsys.readouterr().err


def test_an_index_that_is_missing_damaged_or_behind_asks_for_a_build(
    published: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, kept = published / WHOOSH, published / "kept index"
    shutil.copytree(folder, kept)
    flip_a_bit(next(folder.glob("*.toc")))
    assert query(published, "rain") == 1
    assert (
        "has no whole Whoosh index of this release; a build brings it up to date"
        in capsys.readouterr().err
    )
    shutil.rmtree(folder)
    assert query(published, "rain") == 1
    assert (
        "has no whole Whoosh index of this release; a build brings it up to date"
        in capsys.readouterr().err
    )
    earlier = current(published)
    assert build([*RECORDS[1:]]) == 0
    capsys.readouterr()
    assert query(published, "rain OR tides", "--ids") == 0
    assert capsys.readouterr().out == "a-rain\nb-rain\n"
    shutil.rmtree(folder)
    kept.rename(folder)  # as if the build had been killed after it replaced CURRENT
    assert query(published, "rain") == 1
    error = capsys.readouterr().err
    assert f"whoosh is behind: it has the snapshot {earlier}; a build brings it up to date" in error
    assert build([*RECORDS[1:]]) == 0  # nothing changed
    assert query(published, "tides") == 0
    assert "no service matches" in capsys.readouterr().err


def test_a_rollback_brings_the_index_up_to_date(
    published: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build([*RECORDS[1:]]) == 0
    assert main(["rollback", str(published)]) == 0
    capsys.readouterr()
    assert query(published, "tides", "--ids") == 0
    assert capsys.readouterr().out == "tides\n"
