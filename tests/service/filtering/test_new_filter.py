"""A new filter is one declaration: parameter, column, facet and build follow from it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from tests.support.running import service, write_lines

ANCHOR = "    match: Annotated[\n"
DECLARATION = """\
    language: Annotated[Strings, any_of("en", Column("language", ("language",)))] = ()
"""
PROGRAM = """
import json, sys
from indexer.__main__ import main
from service.snapshot import open_snapshot
assert main(["build", sys.argv[1], "--out", "artifacts", "--quiet", "--no-semantic"]) == 0
snapshot = open_snapshot("artifacts")
hits = snapshot.list(language=["EN"], facets=["language"])
found = snapshot.search_endpoints("", language=["de"], per_service=0, facets=["language"])
print(json.dumps([hits.ids, hits.facets, found.total, found.facets]))
"""


def test_a_filter_of_a_member_of_records_is_one_line(tmp_path: Path) -> None:
    for name in ("service", "indexer"):
        shutil.copytree(import_module(name).__path__[0], tmp_path / name)
    declared = tmp_path / "service" / "conditions.py"
    text = declared.read_text()
    assert text.count(ANCHOR) == 1
    declared.write_text(text.replace(ANCHOR, DECLARATION + ANCHOR))
    records = [
        service("a", language="en"),
        service("b", language=["En", "de", 7]),
        service("c", language={"x": 1}),
        service("d"),
    ]
    command = [sys.executable, "-c", PROGRAM, write_lines(tmp_path / "source.jsonl", records)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    ids, facets, total, counted = json.loads(result.stdout)
    assert sorted(ids) == ["a", "b"]
    assert [each["count"] for each in facets["language"]] == [2, 1]
    assert total == 1
    assert [each["count"] for each in counted["language"]] == [1, 1]
