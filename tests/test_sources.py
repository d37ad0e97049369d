"""Every format that catalogue records are read from, and what is said of those that cannot be."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from service.snapshot import open_snapshot
from tests.conftest import Build
from tests.running import run_indexer, service, write_lines

RECORDS = [service(f"s{n}", name=f"Sérvice {n}") for n in range(3)]


def lines() -> str:
    return "".join(json.dumps(record) + "\n" for record in RECORDS)


FORMATS: dict[str, str] = {
    "lines": lines(),
    "lines without the last newline": lines().rstrip(),
    "lines with blank ones between": "\n\n" + lines().replace("\n", "\n \n"),
    "lines that end as on Windows": lines().replace("\n", "\r\n"),
    "lines after a byte order mark": "\ufeff" + lines(),
    "one line": json.dumps(RECORDS[0]),
    "array": json.dumps(RECORDS),
    "array over several lines": json.dumps(RECORDS, indent=2),
    "array after a byte order mark": "\ufeff" + json.dumps(RECORDS),
    "envelope": json.dumps({"services": RECORDS}),
    "envelope over several lines": "\n" + json.dumps({"services": RECORDS}, indent=2),
    "envelope of a page": json.dumps(
        {"total": 3, "next": None, "p": {"limit": 3}, "services": RECORDS}
    ),
    "envelope with its list last": json.dumps(
        {"a": "x", "p": {"q": {"r": [1]}}, "services": RECORDS}, indent=1
    ),
    "envelope of a record a line": '{"services": [\n'
    + ",\n".join(json.dumps(record) for record in RECORDS)
    + "\n]}",
    "empty array": "[]",
    "empty envelope": '{"services": []}',
}


@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("form", FORMATS)
def test_every_form_is_recognised_by_its_content(
    form: str,
    compress: Callable[[bytes], bytes],
    tmp_path: Path,
    artifacts: Path,
    build: Build,
) -> None:
    source = tmp_path / "named.anyhow"
    source.write_bytes(compress(FORMATS[form].encode()))
    assert build(source) == 0
    snapshot = open_snapshot(artifacts)
    expected = 0 if form.startswith("empty") else 1 if form == "one line" else 3
    stored = json.loads(b"[%b]" % snapshot.services.slice(0, 9))
    assert [record["name"] for record in stored] == [r["name"] for r in RECORDS[:expected]]


def test_standard_input_is_a_source(artifacts: Path) -> None:
    finished = run_indexer("build", "-", "--out", artifacts, input=lines())
    assert finished.returncode == 0, finished.stderr
    assert len(open_snapshot(artifacts).services) == 3


def test_a_folder_stands_for_its_json_files_by_name(
    tmp_path: Path, artifacts: Path, build: Build
) -> None:
    folder = tmp_path / "feeds"
    folder.mkdir()
    write_lines(folder / "b.jsonl", [service("x", name="later")])
    write_lines(folder / "a.json", [service("x", name="earlier")])
    (folder / "notes.txt").write_text("not a source")
    assert build(folder) == 0
    assert json.loads(open_snapshot(artifacts).services.text(0))["name"] == "later"


def test_an_array_of_many_megabytes_on_one_line_is_read(
    tmp_path: Path, artifacts: Path, build: Build
) -> None:
    source = tmp_path / "large.json"
    records = [service(f"s{n}", description="x" * 1_000_000) for n in range(20)]
    source.write_text(json.dumps(records))
    assert build(source) == 0
    assert len(open_snapshot(artifacts).services) == 20


FATAL = {
    "empty": (b"", "is empty"),
    "only blanks": (b" \n\n", "is empty"),
    "gzip of nothing": (gzip.compress(b""), "is empty"),
    "truncated gzip": (gzip.compress(lines().encode())[:-12], "gzip data is damaged or cut short"),
    "corrupt gzip": (gzip.compress(lines().encode())[:30] + b"x" * 99, "gzip data is damaged"),
    "half an array": (json.dumps(RECORDS).encode()[:150], ":1: Input data was truncated"),
    "half an envelope": (b'{"services": [\n' + lines().encode()[:50], "damaged or cut short"),
    "an object where a list belongs": (b'{"services": {"a": 1}}', "Expected `array`"),
    "an object without a list": (b'{\n"a": 1\n}', "missing required field `services`"),
    "text after an array": (b"[]\n[]", "trailing characters"),
    "a fault on a line of an array": (b'[\n{"id": 1},\n{nope}]', ":3: JSON is malformed"),
}


@pytest.mark.parametrize("case", FATAL)
def test_an_unreadable_source_ends_the_build_and_keeps_what_was_published(
    case: str, tmp_path: Path, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build([service("kept")]) == 0
    capsys.readouterr()
    source = tmp_path / "source"
    content, message = FATAL[case]
    source.write_bytes(content)
    assert build(source) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error: {source}")
    assert message in said
    assert said.count("\n") == 1
    assert open_snapshot(artifacts).find("kept") is not None


@pytest.mark.parametrize(
    ("name", "message"),
    [("nowhere.jsonl", "there is no such file"), ("unreadable", "no file here ends in .jsonl")],
)
def test_a_missing_source_is_said_to_be_missing(
    name: str, message: str, tmp_path: Path, artifacts: Path
) -> None:
    (tmp_path / "unreadable").mkdir()
    finished = run_indexer("build", tmp_path / name, "--out", artifacts)
    assert finished.returncode == 1
    assert message in finished.stderr
    assert "Traceback" not in finished.stderr
