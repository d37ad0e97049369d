"""Findings: their positions, reasons, counts and subjects, and the share of malformed records."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

import pytest

from indexer.__main__ import main
from indexer.errors import InvalidRecord
from indexer.intake.fates import read_subject
from indexer.intake.findings import MAX_EXAMPLES, Findings
from service.snapshot.snapshot import open_snapshot
from tests.support.running import Build, Json, endpoint, payment, service, write_lines
from tests.support.sources.feeds import misbehaving, sending
from tests.support.sources.x402 import accept, resource

GOOD = json.dumps(service("good"))
ALL = ("--max-rejects", "100%")


def with_price(**pricing: Any) -> Json:
    return service("bad", endpoints=[endpoint(), endpoint(**pricing)])


KEYS = {"source", "position", "id", "path", "reason", "fate"}
AMOUNT = "$.endpoints[1].pricing.amount"
MALFORMED: dict[str, tuple[bytes | Json, str, str]] = {
    "not JSON": (b"nope", "$", "malformed"),
    "cut short": (GOOD.encode()[:-9], "$", "truncated"),
    "two records on a line": (f"{GOOD}{GOOD}".encode(), "$", "trailing"),
    "no object": (b"[1]", "$", "Expected `object`, got `array`"),
    "null": (b"null", "$", "Expected `object`"),
    "a NaN": (GOOD.replace('"id"', '"x": NaN, "id"').encode(), "$", "malformed"),
    "invalid UTF-8": (b'{"x": "\xff", ' + GOOD.encode()[1:], "$", "not UTF-8 at byte 7"),
    "a lone surrogate": (GOOD.replace("One", "\\ud800").encode(), "$", "half of a surrogate pair"),
    "a lone surrogate before more": (
        GOOD.replace("One", "\\ude00 x").encode(),
        "$",
        "half of a surrogate pair",
    ),
    "nested without end": (b'{"x": ' + b"[" * 9999 + b"]" * 9999 + b"}", "$", "too deeply"),
    "34 MB": (b'{"x": "' + b"x" * 34_000_000 + b'"}', "$", "longer than the 16,777,216 bytes"),
    "no name": ({"id": "bad", "description": "", "endpoints": []}, "$", "`name`"),
    "an empty name": (service("bad", name=""), "$.name", "length >= 1"),
    "a name of another type": (service("bad", name=7), "$.name", "Expected `str`, got `int`"),
    "no list of endpoints": (service("bad", endpoints={}), "$.endpoints", "Expected `array`"),
    "an endpoint without url": (
        service("bad", endpoints=[{"method": "GET", "pricing": endpoint()["pricing"]}]),
        "$.endpoints[0]",
        "`url`",
    ),
    "a negative price": (with_price(amount="-0.01"), AMOUNT, "Expected a non-negative decimal"),
    "a price of NaN": (with_price(amount="NaN"), AMOUNT, "Expected a non-negative decimal"),
    "an infinite price": (with_price(amount="Infinity"), AMOUNT, "non-negative decimal"),
    "a price with an exponent": (with_price(amount="1e-2"), AMOUNT, "non-negative decimal"),
    "a price with a newline": (with_price(amount="1\n"), AMOUNT, "non-negative decimal"),
    "a price in other digits": (with_price(amount="١"), AMOUNT, "non-negative decimal"),
    "a price of 101 digits": (with_price(amount="9" * 101), AMOUNT, "length <= 100"),
    "a price as a number": (with_price(amount=0.01), AMOUNT, "Expected `str`, got `float`"),
    "a negative bound": (with_price(maxAmount="-1"), AMOUNT[:-6] + "maxAmount", "non-negative"),
    "an id with a slash": (service("a/b"), "$.id", "1 to 256 letters"),
    "an id that is a path": (service("search"), "$.id", "other than `search`"),
    "an id of dots": (service(".."), "$.id", "other than `search`"),
    "an empty id": (service(""), "$.id", "1 to 256"),
    "an id of 257 letters": (service("a" * 257), "$.id", "1 to 256"),
    "neither id nor domain": (service(None), "$.id", "nor a domain"),
    "a domain that makes no id": (service(None, domain="a b"), "$.domain", "none can be derived"),
    "calls as a number": (
        service("bad", endpoints=[endpoint() | {"quality": {"l30DaysTotalCalls": 7}}]),
        "$.endpoints[0].quality.l30DaysTotalCalls",
        "Expected `str`",
    ),
    "an unknown group": (
        service(
            "bad",
            endpoints=[
                endpoint() | {"parameters": [{"group": "x", "name": "n", "type": "string"}]}
            ],
        ),
        "$.endpoints[0].parameters[0].group",
        "Invalid enum value",
    ),
    "a date that is none": (
        service("bad", quality={"lastCalledAt": "yesterday"}),
        "$.quality.lastCalledAt",
        "Invalid RFC3339",
    ),
}


def test_a_malformed_record_is_rejected_with_its_place_path_and_reason(
    tmp_path: Path, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [record for record, _, _ in MALFORMED.values()]
    texts = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in records]
    source, listed = tmp_path / "feed.jsonl", tmp_path / "rejects.jsonl"
    last = GOOD.replace("good", "x").encode()
    source.write_bytes(b"\n\n".join([GOOD.encode(), *texts, last]))
    assert build(source, options=(*ALL, "--jobs", "1", "--rejects", str(listed))) == 0
    rejects = [json.loads(line) for line in listed.read_text().splitlines()]
    output = capsys.readouterr().out
    for number, (reject, case) in enumerate(zip(rejects, MALFORMED, strict=True), 1):
        record, path, reason = MALFORMED[case]
        assert reject.keys() == KEYS, case
        place = (reject["source"], reject["position"], reject["path"])
        assert place == (str(source), f"line {1 + 2 * number}", path), case
        assert reason in reject["reason"], case
        if isinstance(record, dict):
            assert reject["id"] == record.get("id", record.get("domain")), case
        if number <= MAX_EXAMPLES:
            assert f"{source}:{1 + 2 * number}: {path}: " in output, case
    assert len(open_snapshot(artifacts).services) == 2


def test_the_position_of_a_record_in_a_list_is_its_index(tmp_path: Path, build: Build) -> None:
    listed = tmp_path / "rejects.jsonl"
    for text, position in (('{"services": [%s, 7]}', "services[1]"), ("[%s, 7]", "[1]")):
        source = tmp_path / "feed.json"
        source.write_text(text % GOOD)
        assert build(source, options=(*ALL, "--rejects", str(listed))) == 0
        assert json.loads(listed.read_text())["position"] == position


def test_too_many_malformed_records_of_one_source_publish_nothing(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    good = [service(f"s{n}") for n in range(99)]
    bad = service("bad", name=7)
    assert build(good) == 0
    before = open_snapshot(artifacts).id
    assert build([*good[:98], bad], good) == 3
    assert "1 of 99 records is malformed, more than the 1.00%" in capsys.readouterr().err
    assert open_snapshot(artifacts).id == before
    assert build([*good[:98], bad], options=("--max-rejects", "1.02%")) == 0


def test_the_malformed_share_that_was_accepted_may_grow_by_the_maximum(build: Build) -> None:
    good, bad = [service(f"s{n}") for n in range(100)], service("bad", name=7)
    assert build([*good[:98], bad, bad]) == 3
    assert build([*good[:98], bad, bad], options=("--max-rejects", "2%")) == 0
    assert build([*good[:97], bad, bad, bad]) == 0
    assert build([*good[:95], *[bad] * 5]) == 3


def test_malformed_resources_of_a_feed_are_left_out_unless_all_are(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = resource("not a URL")
    with misbehaving(sending([bad, bad])) as server:
        assert build(server.url) == 3
        assert "2 of 2 records are malformed" in capsys.readouterr().err
        server.behaviour = sending([bad, bad, resource()])
        assert build(server.url) == 0
    assert open_snapshot(artifacts).manifest.counts.resources == 1


def test_the_maximum_share_applies_to_each_source(build: Build) -> None:
    assert build([service("a", name=7)], [service(f"s{n}") for n in range(999)]) == 3


def test_a_duplicate_id_is_left_out_and_not_counted_as_malformed(
    tmp_path: Path, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = tmp_path / "rejects.jsonl"
    records = [service("x", name="first"), service("x", name="second")]
    assert build(records, options=("--max-rejects", "0%", "--rejects", str(listed))) == 0
    reject = json.loads(listed.read_text())
    assert (reject["position"], reject["id"], reject["path"]) == ("line 2", "x", "$.id")
    assert reject["reason"] == "has the id of line 1, which is kept"
    output = capsys.readouterr().out
    assert f"fresh      1 of 2 records of {reject['source']}, 1 left out\n" in output
    assert f"1 left out of {reject['source']} (duplicate ids)\n" in output
    assert f"  left out {reject['source']}:2: $.id: has the id of line 1" in output
    assert json.loads(open_snapshot(artifacts).services.text(0))["name"] == "first"


def test_a_rejects_file_that_cannot_be_written_fails_the_build(
    tmp_path: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = "cannot be written; name a file in another folder"
    for path in (tmp_path / "no" / "file", tmp_path):
        assert build([service()], options=("--rejects", str(path))) == 2
        assert f"error: --rejects {path}: {reason}\n" == capsys.readouterr().err


@pytest.mark.parametrize("form", ["itself", "by another path", "in a folder", "payments"])
def test_a_rejects_file_that_is_an_input_is_an_error(
    form: str, tmp_path: Path, artifacts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "feeds"
    folder.mkdir()
    source = folder / "feed.jsonl"
    source.write_text(GOOD)
    other = tmp_path / "other.jsonl"
    other.symlink_to(source)
    payments = write_lines(tmp_path / "payments.jsonl", [payment()])
    arguments = {
        "itself": (source, "--rejects", source),
        "by another path": (source, "--rejects", other),
        "in a folder": (folder, "--rejects", source),
        "payments": (other, "--transactions", payments, "--rejects", payments),
    }
    assert main(["build", *map(str, arguments[form]), "--out", str(artifacts)]) == 2
    assert "is a file to read; name another one" in capsys.readouterr().err
    assert source.read_text() == GOOD


@pytest.mark.parametrize("fate", ["busy", "unreadable"])
def test_an_interrupted_build_leaves_the_previous_rejects_file(
    fate: str, tmp_path: Path, artifacts: Path, build: Build
) -> None:
    listed = tmp_path / "rejects.jsonl"
    assert build([service("a"), 7], options=(*ALL, "--rejects", str(listed))) == 0
    earlier = listed.read_text()
    with (artifacts / ".lock").open() as lock:
        if fate == "busy":
            fcntl.flock(lock, fcntl.LOCK_EX)
        sources = [service("b"), 7, 8], tmp_path / "gone.jsonl"
        assert build(*sources, options=(*ALL, "--rejects", str(listed))) == 1
    assert listed.read_text() == earlier
    assert list(tmp_path.glob("*rejects*")) == [listed]


def test_too_many_rejects_are_listed_though_nothing_is_published(
    tmp_path: Path, build: Build
) -> None:
    listed = tmp_path / "rejects.jsonl"
    assert build([service("a"), 7, 8], options=("--rejects", str(listed))) == 3
    assert len(listed.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("id_text", "listed_id"),
    [
        (b'{\n"a":\r\n1}', {"a": 1}),
        (b'["x",\n2]', ["x", 2]),
        (b'"\xff"', None),
        (b'{"\xff":1}', None),
    ],
)
def test_every_reject_is_one_line_of_json(
    id_text: bytes, listed_id: object, tmp_path: Path, build: Build
) -> None:
    source, listed = tmp_path / "feed.json", tmp_path / "rejects.jsonl"
    source.write_bytes(b'[%b,{"id":%b,"name":3}]' % (GOOD.encode(), id_text))
    assert build(source, options=(*ALL, "--rejects", str(listed))) == 0
    (line,) = listed.read_bytes().splitlines()
    assert json.loads(line.decode())["id"] == listed_id


def test_a_source_that_is_discarded_leaves_those_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("indexer.intake.fates.MAX_UNLISTED", 0)
    findings = Findings(None)
    first = findings.tally("first.jsonl", "first")
    findings.refuse(first, "line 1", None, InvalidRecord("$", "malformed"))
    findings.discard(findings.tally("second.jsonl", "second"))
    assert findings.tallies == [first]
    assert [(each.name, each.more) for each in findings.fates.sources] == [("first", 1)]


ODD: list[Any] = [None, 7, "", [], {}]


@pytest.mark.parametrize("odd", ODD)
def test_payees_that_are_no_text_are_left_out(odd: Any) -> None:
    paid = resource("https://a.example/", accept(payTo=odd), accept(payTo="0xAB"))
    record = {"endpoints": [endpoint() | {"payTo": odd}, endpoint() | {"payTo": "0xAB"}, odd]}
    for values in (paid, record):
        subject = read_subject(json.dumps(values).encode())
        assert len(subject.payees) == 1
        assert len(subject.addresses) == 1
