"""Formats of sources, and the errors for sources that cannot be read."""

from __future__ import annotations

import gzip
import io
import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indexer.cli.main import main
from indexer.errors import SourceError
from indexer.intake.lists import SourceRecord, read_records
from indexer.text import MAX_RECORD
from service.arrays.files import zstd
from service.snapshot.snapshot import open_snapshot
from tests.support.artifacts import current, listed
from tests.support.running import PLAIN, Build, Json, run_process, service, toml_table, write_lines
from tests.support.sources.feeds import misbehaving, sending

RECORDS = [service(f"s{n}", name=f"Sérvice {n}") for n in range(3)]


def lines() -> str:
    return "".join(json.dumps(record) + "\n" for record in RECORDS)


@pytest.mark.parametrize(
    ("text", "is_resource"),
    [
        ('{"resource": "https://a.example/", "accepts": []}', True),
        ('{"accepts": []}', True),
        ('{"resource": "https://a.example/", "endpoints": []}', False),
        ('{"name": "accepts", "more": {"accepts": [], "resource": ""}}', False),
        ('{"id": "resource"}', False),
        ('{"accepts": [', True),
        ('{"endpoints": [{"accepts": [', False),
    ],
)
def test_an_entry_of_a_feed_has_payments_or_a_resource_and_no_endpoints(
    text: str, is_resource: bool
) -> None:
    assert SourceRecord("", text.encode()).is_resource is is_resource


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
    "envelope after a list": json.dumps({"filters": ["a"], "services": RECORDS}),
    "envelope after a nested object": json.dumps({"meta": {"a": {"b": 1}}, "services": RECORDS}),
    "envelope after a quoted quote": json.dumps({"note": 'a "q"', "services": RECORDS}),
    "envelope after a hyphenated key": json.dumps({"next-page": None, "services": RECORDS}),
    "envelope with commas first": '{"services": ['
    + "\n\n, ".join(json.dumps(record) for record in RECORDS)
    + "\n]\n}",
    "envelope that states null elsewhere": json.dumps({"items": None, "services": RECORDS}),
    "record over several lines": json.dumps(RECORDS[0], indent=2),
    "lines with an unknown field services": json.dumps({"services": [1]} | RECORDS[0])
    + "\n"
    + "".join(json.dumps(record) + "\n" for record in RECORDS[1:]),
    "envelope of a record a line": '{"services": [\n'
    + ",\n".join(json.dumps(record) for record in RECORDS)
    + "\n]}",
    "empty array": "[]",
    "empty envelope": '{"services": []}',
    "empty envelope of null": '{"items": null, "total": 0}',
}


@pytest.mark.parametrize(
    "compress", [bytes, gzip.compress, zstd.compress], ids=["plain", "gzip", "zstd"]
)
@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_recognised_by_its_content(
    form: str, compress: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    source = tmp_path / "named.anyhow"
    source.write_bytes(compress(FORMATS[form].encode()))
    expected = (
        0
        if form.startswith("empty")
        else 1
        if form in {"one line", "record over several lines"}
        else 3
    )
    records = [*read_records(str(source))]
    assert [record.fault for record in records] == [None] * expected
    names = [json.loads(record.text)["name"] for record in records]
    assert names == [record["name"] for record in RECORDS[:expected]]


def test_the_download_of_a_catalogue_is_a_source_as_a_file_and_as_a_url(
    tmp_path: Path, artifacts: Path
) -> None:
    options = ("--no-semantic", "--quiet", "--jobs", "1")
    source = write_lines(tmp_path / "own.jsonl", RECORDS)
    assert main(["build", source, "--out", str(artifacts), *options]) == 0
    (download,) = artifacts.rglob(f"{current(artifacts)}.jsonl.zst")
    with misbehaving(sending(download.read_bytes())) as server:
        for name, place in (("path", str(download)), ("url", server.url)):
            out = tmp_path / name
            keys = {"name": name, name: place, "kind": "records", "curated": True}
            (tmp_path / "catalogue.toml").write_text(f"[[source]]\n{toml_table(keys)}")
            arguments = ["build", str(tmp_path / "catalogue.toml"), "--out", str(out)]
            assert main([*arguments, *options]) == 0
            assert [listed(out)] == [listed(artifacts)]


def test_standard_input_is_a_source(artifacts: Path) -> None:
    arguments = ("build", "-", "--jobs", 1, "--out", artifacts, *PLAIN)
    finished = run_process("indexer", *arguments, input=lines())
    assert finished.returncode == 0, finished.stderr
    assert len(open_snapshot(artifacts).services) == 3


def texts(path: Path, **options: Any) -> list[bytes]:
    return [record.text for record in read_records(str(path), **options)]


def test_a_list_of_many_megabytes_on_one_line_is_read(tmp_path: Path) -> None:
    source = tmp_path / "large.json"
    records = [{"id": f"s{n}", "provider": "x" * 1_000_000} for n in range(20)]
    for whole in (records, {"next-page": {"a": []}, "services": records}):
        source.write_text(json.dumps(whole) + "\n")
        assert [json.loads(text) for text in texts(source)] == records


def test_what_is_known_to_be_lines_is_no_envelope(tmp_path: Path) -> None:
    source = tmp_path / "spool"
    lines = [b'{"services":[{"id":"x"}]}', b'{"items":1,', b"[1,2]", b"0"]
    for first in range(len(lines)):
        order = lines[first:] + lines[:first]
        source.write_bytes(b"\n".join(order) + b"\n")
        assert texts(source, is_lines=True) == order
    source.write_bytes(b"")
    assert texts(source, is_lines=True) == []


@pytest.mark.parametrize("form", ["lines", "array", "envelope"])
def test_a_source_with_more_items_than_it_may_have_is_an_error(form: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text(FORMATS[form])
    assert len(texts(source, max_items=3)) == 3
    with pytest.raises(SourceError, match=r"source: has more than 2 items; raise `max_items`"):
        texts(source, max_items=2)


@pytest.mark.parametrize(
    "stated", [{"total": 33_993}, {"pagination": {"totalItems": "33993", "limit": 3}}]
)
def test_a_saved_page_is_noted_with_how_much_of_its_total_is_there(
    stated: Json, tmp_path: Path
) -> None:
    source, notes = tmp_path / "page.json", list[str]()
    source.write_text(json.dumps({"items": RECORDS} | stated))
    assert len(texts(source, note=notes.append)) == 3
    assert notes == ["states a total of 33,993 items and gives 3"]
    source.write_text(json.dumps({"items": RECORDS, "total": 3}))
    texts(source, note=notes.append)
    assert len(notes) == 1


@pytest.mark.parametrize("form", ["[%s]", '{"items": [%s], "note": "\\ud83d\\ude00"}'])
def test_half_of_a_surrogate_pair_spoils_its_record_only(form: str, tmp_path: Path) -> None:
    records = ['{"id": "\\ufffd"}', '{"id": "\\ud800"}', '{"id": "\\\\ud800"}', '{"id": "é"}']
    source = tmp_path / "source.json"
    source.write_text(form % ", ".join(records))
    assert [text.decode() for text in texts(source)] == records


FIRST_FAULTS = {
    "cut short": json.dumps(RECORDS[0])[:40],
    "not JSON": '{"id": nope, "services": []}',
    "nested too deeply": '{"x": ' + "[" * 9999 + "]" * 9999 + "}",
    "longer than a record may be": json.dumps(service("s0", description="x" * 17_000_000)),
    "of escaped quotes, longer than a record may be": json.dumps({"x": '"' * 9_000_000}),
    "like an envelope, longer than a record may be": json.dumps(
        {"key": "services", "nested": {"services": []}, "x": "x" * 17_000_000}
    ),
}


@pytest.mark.parametrize("between", ["\n", "\n\n \n"])
@pytest.mark.parametrize("fault", FIRST_FAULTS)
def test_lines_after_a_malformed_first_one_are_records(
    fault: str, between: str, tmp_path: Path
) -> None:
    source = tmp_path / "feed.jsonl"
    first, *others = lines().splitlines()
    first = FIRST_FAULTS[fault]
    source.write_text("\n" + between.join([first, others[0], "{", others[1]]))
    malformed, *records = read_records(str(source))
    assert malformed.position == "line 2"
    assert malformed.fault is not None or malformed.text == first.encode()
    passed = between.count("\n")
    assert [(record.position, record.text.decode()) for record in records] == [
        (f"line {2 + number * passed}", text)
        for number, text in enumerate([others[0], "{", others[1]], 1)
    ]


LIMIT, MANY = 4, 24  # MiB
BOMBS = {
    "a long first line": (b'{"x":"', b"x", b'"}\n'),
    "blanks before the first record": (b"", b" ", b"\n"),
    "blanks after the first line": (lines().splitlines()[0].encode() + b"\n", b" ", b"\n"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_memory_for_json_lines_is_bounded_by_the_size_of_a_record(
    bomb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.intake.lists.MAX_RECORD", LIMIT * 2**20)
    source = tmp_path / "bomb.jsonl.gz"
    start, filler, end = BOMBS[bomb]
    with gzip.open(source, "wb", compresslevel=1) as file:
        file.writelines([start, *[filler * 2**20] * MANY, end, lines().encode()])
    tracemalloc.start()
    try:
        records = [*read_records(str(source))]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len([record for record in records if not record.fault]) >= 3
    assert peak < 5 * LIMIT * 2**20 < MANY * 2**20


def test_a_record_after_too_much_white_space_is_rejected(tmp_path: Path) -> None:
    source = tmp_path / "source.jsonl"
    first, second, third = lines().encode().splitlines()
    source.write_bytes(b"\n".join([first, second, b" " * (MAX_RECORD + 1) + third]))
    faults = [str(record.fault or "") for record in read_records(str(source))]
    assert faults == ["", "", f"$: longer than the {MAX_RECORD:,} bytes of a record"]


def test_an_array_over_the_size_limit_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.intake.lists.MAX_DOCUMENT", 2**20)
    source = tmp_path / "large.json"
    source.write_text("[\n" + " " * 2**21 + "x" * 2**21 + "]")
    with pytest.raises(SourceError, match=r"more than 1,048,576 bytes; write it as JSON lines"):
        next(read_records(str(source)))


FATAL = {
    "empty": (b"", "is empty"),
    "only blanks": (b" \n\n", "is empty"),
    "gzip of nothing": (gzip.compress(b""), "is empty"),
    "truncated gzip": (
        gzip.compress(lines().encode())[:-12],
        "data is damaged",
    ),
    "corrupt gzip": (
        gzip.compress(lines().encode())[:30] + b"x" * 99,
        "data is damaged",
    ),
    "zstd of nothing": (zstd.compress(b""), "is empty"),
    "truncated zstd": (
        zstd.compress(lines().encode())[:-3],
        "data is damaged",
    ),
    "corrupt zstd": (
        zstd.compress(lines().encode())[:30] + b"x" * 99,
        "data is damaged",
    ),
    "half an array": (json.dumps(RECORDS).encode()[:150], ":1: Input data was truncated"),
    "half an envelope": (b'{"services": [\n' + lines().encode()[:50], "damaged or cut short"),
    "half an envelope on one line": (b'{"a": 1, "services": [{"id":', "damaged or cut short"),
    "a value nested without end": (
        b"[%b, " % lines().encode().splitlines()[0] + b"[" * 9999 + b"]" * 9999 + b"]",
        "nested too deeply to be read",
    ),
    "an envelope nested without end": (
        b'{"services": [%b]}' % (b"[" * 9999 + b"]" * 9999),
        "nested too deeply to be read",
    ),
    "an object where a list belongs": (b'{"services": {"a": 1}}', "`services` has another value"),
    "an object without a list": (b'{\n"a": 1\n}', "it has no list under `services`"),
    "text after an array": (b"[]\n[]", "trailing characters"),
    "a fault on a line of an array": (b'[\n{"id": 1},\n{nope}]', ":3: JSON is malformed"),
}


def test_an_unreadable_source_fails_the_build_and_leaves_the_published_snapshot(
    tmp_path: Path, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build([service("old")]) == 0
    capsys.readouterr()
    source = tmp_path / "source"
    for case, (content, message) in FATAL.items():
        source.write_bytes(content)
        assert build(source) == 1, case
        error = capsys.readouterr().err
        assert error.startswith(f"error: {source}"), case
        assert message in error, case
        assert error.count("\n") == 1, case
        assert open_snapshot(artifacts).find("old") is not None, case


@pytest.mark.parametrize(
    ("name", "message"),
    [("nowhere.jsonl", "there is no such file"), ("unreadable", "no file here ends in .jsonl")],
)
def test_a_missing_source_is_an_error(
    name: str, message: str, tmp_path: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "unreadable").mkdir()
    assert build(tmp_path / name) == 1
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_closed_standard_input_is_an_error(
    build: Build, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)  # as Python starts with a closed one
    assert build("-") == 1
    assert capsys.readouterr().err == "error: -: standard input is closed\n"


def test_a_file_name_that_is_not_utf_8_is_printed_escaped(
    tmp_path: Path, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    source = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.jsonl")
    Path(source).write_text(lines() + "{}\n")
    listed = tmp_path / "rejects.jsonl"
    assert build(source, options=("--max-rejects", "100%", "--rejects", str(listed))) == 0
    escaped = f"{tmp_path}/caf\\xe9.jsonl"
    assert f"3 of 4 records of {escaped}, 1 rejected" in capsys.readouterr().out
    assert json.loads(listed.read_text())["source"] == escaped
    assert [one.name for one in open_snapshot(artifacts).manifest.sources] == [escaped]
    assert build(source + ".gone") == 1
    assert f"{escaped}.gone: there is no such file" in capsys.readouterr().err


def test_a_file_name_that_the_terminal_cannot_encode_is_escaped(
    tmp_path: Path, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(terminal, "ascii", write_through=True))
    assert build(write_lines(tmp_path / "é.jsonl", RECORDS)) == 0
    assert b"\\xe9.jsonl\n" in terminal.getvalue()
