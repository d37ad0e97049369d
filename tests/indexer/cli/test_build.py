"""The report of `build` on the command line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pytest

from indexer.__main__ import main
from indexer.encoder.packaged import load_encoder
from service.artifacts.publishing import DOWNLOADS
from service.snapshot.manifest import FORMAT, MANIFEST, read_manifest
from service.snapshot.publication import CURRENT
from service.snapshot.snapshot import open_snapshot
from tests.support.artifacts import STAGES, folder, ids, overlays, reported
from tests.support.clients.terminals import on_terminal
from tests.support.running import (
    PLAIN,
    ROOT,
    Build,
    Json,
    endpoint,
    payment,
    priced,
    run_indexer,
    service,
    write_lines,
)
from tests.support.sources.feeds import misbehaving, sending
from tests.support.sources.openapi import document
from tests.support.sources.x402 import accept, resource

ESCAPE = "\x1b"


def test_the_report_has_lines_for_sources_rejects_overlays_and_changes(
    tmp_path: Path,
    build: Build,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("indexer.progress.MIN_SECONDS", float("inf"))
    assert build([service("a"), service("b")]) == 0
    capsys.readouterr()
    broken = [service("c"), {"name": "x"}, service("d", endpoints=0)]
    resources = [resource(), resource("http://plain.example/")]
    options = ("--max-rejects", "90%", *overlays(tmp_path, {"nope": None, "c": {"name": "C"}}))
    assert (
        build([service("a", name="New"), *broken], resources, payments=[payment()], options=options)
        == 0
    )
    first, second, third = (
        tmp_path / name for name in ("source0.jsonl", "source1.jsonl", "payments.jsonl")
    )
    assert capsys.readouterr().out.splitlines()[:-1] == [
        f"fresh      2 of 4 records of {first}, 2 rejected",
        f"fresh      1 of 2 records of {second}, 1 left out",
        f"fresh      1 record of {third}",
        f"1 rejected of {first} ($: Object missing required field `description`)",
        f"1 rejected of {first} ($.endpoints: Expected `array`, got `int`)",
        f"1 left out of {second} (http resources)",
        f"  rejected {first}:3: $: Object missing required field `description`",
        f"  left out {second}:2: $.resource: is not encrypted",
        f"  rejected {first}:4: $.endpoints: Expected `array`, got `int`",
        f"unused overlay: {tmp_path / 'overlay.json'}: nope",
        "3 of 3 endpoints without a description; an overlay can give one",
    ]


def test_the_last_line_says_what_is_served_and_what_has_changed(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    first = [service("a"), service("b"), service("c")]
    second = [service("a", name="New"), service("d")]
    cases = (("published", first, ""), ("nothing changed; still serving", first, ""))
    for verb, records, since in (*cases, ("published", second, " (+1 ~1 −2)")):
        assert build(records, payments=[payment()]) == 0
        number = len(records)
        counts = f"{number} services, {number} endpoints, 1 payment"
        place = f"{artifacts}/snapshots/{folder(artifacts).name}"
        assert capsys.readouterr().out.splitlines()[-1] == f"{verb} {place}{since}: {counts}"


def test_every_source_has_one_line_with_its_state_first_and_the_counts_of_json(
    tmp_path: Path, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "feed.jsonl"
    write_lines(source, [service("a"), service("b", name=7)])
    options = ("--max-rejects", "50%", "--on-error", "last")
    sources = source, [service("c")], [resource("http://plain.example/")]
    states = []
    for case in ("new", "same", "changed", "gone", "back"):
        if case == "changed":
            write_lines(source, [service("a", name="New"), service("b", name=7)])
        elif case == "gone":
            kept = source.rename(tmp_path / "kept")
        elif case == "back":
            kept.rename(source)
        assert build(*sources, options=options) == 0
        lines = capsys.readouterr().out.splitlines()
        assert main(["check", *_paths(tmp_path, sources), "--out", str(artifacts), *options]) == 0
        checked = capsys.readouterr().out.splitlines()
        assert build(*sources, options=(*options, "--json")) == 0
        tallies = reported(capsys)["sources"]
        for number, tally in enumerate(tallies):
            name, records, published = tally["name"], tally["records"], tally["published"]
            some = "" if records == published else f"{published} of "
            start = f"{some}{records} record{'s' * (records != 1)} of {name}"
            line = lines[number]
            assert line.split("  ", 1)[1].strip().startswith(start)
            fates = {"left out": sum(tally["leftOut"].values()), "rejected": tally["rejected"]}
            for fate, count in fates.items():
                assert (f", {count} {fate}" in line) == bool(count)
            assert start in checked[number]
            assert tally["unchanged"] == (not tally["failure"])  # since the build before
        states.append([each.split()[0] for each in lines[:3]])
    rest = ["unchanged", "unchanged"]
    assert states == [
        ["fresh"] * 3,
        ["unchanged", *rest],
        ["fresh", *rest],
        ["COPY", *rest],
        ["unchanged", *rest],
    ]


def _paths(tmp_path: Path, sources: Sequence[object]) -> list[str]:
    names = [str(tmp_path / f"source{number}.jsonl") for number in range(1, len(sources))]
    return [str(tmp_path / "feed.jsonl"), *names]


def test_figures_of_the_machine_are_printed_with_verbose_alone(
    build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = ("indexed anew", "encoder: ", "downloads: ", "all ")
    assert build([service()], whole=True) == 0
    assert not any(each in capsys.readouterr().out for each in (*figures, " s,", "MB"))
    assert build([service("b")], options=("--verbose",), whole=True) == 0
    output = capsys.readouterr().out
    assert all(each in output for each in figures)
    assert re.search(r"snapshot: \d MB, downloads: \d+ [KM]B$", output, re.MULTILINE)


def test_positions_are_said_to_be_lines_of_a_file_where_they_are_no_operations(
    tmp_path: Path, artifacts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    free = document({"/free": {"get": {"responses": {"200": {"description": "OK"}}}}})
    path = tmp_path / "catalogue.toml"
    with misbehaving(sending(free)) as one, misbehaving(sending([service("a"), {}])) as other:
        path.write_text(
            f'[[source]]\nname = "api"\nurl = "{one.url}"\nhosts = ["*"]\n'
            f'[[source]]\nname = "list"\nurl = "{other.url}"\nkind = "records"\n'
        )
        command = ["build", str(path), "--out", str(artifacts), *PLAIN, "--allow-private-feeds"]
        assert main([*command, "--accept", "list"]) == 0
    output = capsys.readouterr().out
    assert "left out api:GET /free: " in output
    assert "positions of list are lines of " in output
    assert "positions of api " not in output


@pytest.mark.parametrize("is_coloured", [True, False])
def test_a_failed_source_is_red_on_a_terminal_where_colour_is_wanted(
    tmp_path: Path, artifacts: Path, is_coloured: bool
) -> None:
    source = write_lines(tmp_path / f"a{ESCAPE}[2J.jsonl", [service("a")])
    command = ["build", source, source + ".gone", "--on-error", "skip", "--out", str(artifacts)]
    screen = on_terminal(80, *command, *PLAIN, NO_COLOR="" if is_coloured else "1")
    (line,) = (each for each in screen.splitlines() if "SKIPPED" in each)
    assert ("31m" in line) == is_coloured
    assert f"{ESCAPE}[2J" not in screen
    assert "\\x1b[2J" in line


def test_a_denial_that_matches_nothing_is_reported_with_its_reason(
    tmp_path: Path, artifacts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [service("api-one"), service("two"), service("evil", domain="evil.example")]
    path = tmp_path / "catalogue.toml"
    write_lines(tmp_path / "own.jsonl", records)
    path.write_text(
        '[[source]]\nname = "own"\npath = "own.jsonl"\n[policy]\ndeny = ['
        '{id = "Api-One", reason = "spelt otherwise"}, {host = "evil.example", reason = "spam"},'
        '{payee = "0xAB", reason = "left"}, {id = "two", reason = "asked for"}]'
    )
    assert main(["build", str(path), "--out", str(artifacts), *PLAIN]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("unused")] == [
        "unused denial: id:Api-One (spelt otherwise)",
        "unused denial: payee:0xAB (left)",
    ]
    assert main(["check", str(path), "--out", str(artifacts), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["unusedDenials"]) == 2


def test_denials_and_overlays_that_match_nothing_are_not_told_while_a_source_is_skipped(
    tmp_path: Path, artifacts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "catalogue.toml"
    overlays(tmp_path, {"a": {"name": "Other"}})
    path.write_text(
        '[[source]]\nname = "own"\npath = "own.jsonl"\non_error = "skip"\n'
        '[[source]]\nname = "more"\npath = "overlay.json"\nkind = "overlay"\n'
        '[policy]\ndeny = [{id = "b", reason = "spam"}]\n'
    )
    assert main(["build", str(path), "--out", str(artifacts), *PLAIN]) == 0
    assert "unused" not in capsys.readouterr().out
    (tmp_path / "own.jsonl").write_text("[]")
    assert main(["build", str(path), "--out", str(artifacts), *PLAIN]) == 0
    assert capsys.readouterr().out.count("unused") == 2


def test_a_first_build_that_leaves_everything_out_publishes_nothing_until_it_is_accepted(
    tmp_path: Path, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    dear = [resource(f"https://s{n}.example/x", accept("99000000000000")) for n in range(3)]
    source = tmp_path / "feed.jsonl"
    write_lines(source, dear)
    assert build(source) == 3
    error = capsys.readouterr().err
    assert error.startswith("error: 0 of 3 records would be published, by a first build; ")
    assert f"3 left out of {source} (implausible prices)" in error
    assert not (artifacts / "CURRENT").exists()
    assert build(source, options=("--accept", str(source))) == 0
    assert ids(artifacts) == []
    assert build(source) == 0


def test_a_first_build_of_empty_lists_is_published(
    tmp_path: Path, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.json").write_text("[]")
    assert build(tmp_path / "empty.json") == 0
    assert ids(artifacts) == []
    assert capsys.readouterr().out.endswith(": 0 services\n")


def test_a_newline_in_a_file_name_begins_no_line(
    tmp_path: Path, artifacts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "a\nerror: b", ["--out", str(artifacts)]
    for command in (
        *(["build", str(source), *out], ["build", str(source / "c.toml"), *out]),
        *(["build", str(tmp_path), "--overlay", str(source), *out], ["verify", str(source)]),
        ["build", str(tmp_path), f"--rejects={source}/c", *out],
        ["build", str(tmp_path), "--transactions", str(source), *out],
    ):
        assert main(command) > 0
        assert len(capsys.readouterr().err.splitlines()) == 1
    write_lines(source, [service(), {"id": 7}])
    assert main(["build", str(source), "--out", str(source / "out")]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
    accepted = ["--accept", str(source), *PLAIN]
    assert main(["build", str(source), *accepted, *out]) == 0
    assert f"1 of 2 records of {tmp_path}/a\\nerror: b, 1 rejected\n" in capsys.readouterr().out


def test_the_json_report_is_one_line_with_the_same_figures(
    tmp_path: Path, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--json", "--max-rejects", "50%", *overlays(tmp_path, {"nope": None}))
    records = [service("a"), {"id": 7}]
    assert build(records, payments=[payment()], options=options, whole=True) == 0
    output = capsys.readouterr()
    assert (output.out.count("\n"), output.err) == (1, "")
    report = json.loads(output.out)
    size = sum(path.stat().st_size for path in folder(artifacts).rglob("*") if path.is_file())
    manifest = (folder(artifacts) / "manifest.json").stat().st_size
    assert set(report.pop("stages")) == STAGES
    assert report.pop("seconds") > 0
    (reject,) = report.pop("firstFindings")
    assert (reject["id"], reject["position"], reject["fate"]) == (7, "line 2", "rejected")
    reason = "$.id: Expected `str`, got `int`"
    source, payments = str(tmp_path / "source0.jsonl"), str(tmp_path / "payments.jsonl")
    sources = report.pop("sources")
    assert all(datetime.fromisoformat(each.pop("readAt")) for each in sources)
    fates: Json = {"leftOut": {}, "noted": {}, "state": "current", "failure": "", "file": ""}
    fates["unchanged"] = False
    assert sources == [
        {"name": source, "records": 2, "published": 1, "rejected": 1, "reasons": {reason: 1}}
        | fates,
        {"name": payments, "records": 1, "published": 1, "rejected": 0, "reasons": {}} | fates,
    ]
    archives = (artifacts / DOWNLOADS).glob(f"{folder(artifacts).name}.*.zst")
    assert report == {
        "snapshot": folder(artifacts).name,
        "changed": True,
        "services": 1,
        "endpoints": 1,
        "resources": 0,
        "payments": 1,
        "indexed": 1,
        "bytes": size - manifest,
        "downloads": sum(path.stat().st_size for path in archives),
        "encoder": load_encoder().name,
        "changes": None,
        "undescribed": 1,
        "unusedDenials": [],
        "unusedOverlays": [f"{tmp_path / 'overlay.json'}: nope"],
        "notes": [],
        "findings": 1,
        "dependsOnTime": False,
    }


def test_a_source_that_failed_is_skipped_or_read_as_it_was_and_says_why(
    tmp_path: Path, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "feed.jsonl"
    write_lines(source, [service("a")])
    assert build(source, options=("--on-error", "last")) == 0
    source.unlink()
    copy, skipped = f"COPY       1 record of {source}, as of ", f"SKIPPED    {source}"
    for action, services, line in (("last", 2, copy), ("skip", 1, skipped)):
        capsys.readouterr()
        assert build(source, [service("b")], options=("--jobs", "1", "--on-error", action)) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith(line)
        assert lines[-2] == f"FAILED {source}: there is no such file"
        assert lines[-1].endswith("; 1 source FAILED")
        assert len(open_snapshot(artifacts).services) == services
    assert build(source, [service("b")]) == 1
    assert capsys.readouterr().err == f"error: {source}: there is no such file\n"


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file without a beginning")
def test_a_file_that_cannot_be_read_ends_the_build(
    build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build("/proc/self/mem") == 1
    error = capsys.readouterr().err
    assert error == "error: /proc/self/mem: cannot be read: Input/output error\n"


def test_all_fates_of_payments_and_all_their_reasons_are_printed(
    tmp_path: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    changes: list[Json] = [{}, {}, {"chain": "base-sepolia"}, *[{"success": False}] * 2]
    changes += [{"amount": -1}, *[{"sender": ""}] * 2]
    payments = [payment(log_index=number) | change for number, change in enumerate(changes)]
    assert build([service()], payments=payments, options=("--max-rejects", "50%")) == 0
    source = tmp_path / "payments.jsonl"
    lines = [
        f"2 of 8 records of {source}, 3 left out, 3 rejected",
        f"2 left out of {source} (failed payments)",
        f"1 left out of {source} (payments on test networks)",
        f"2 rejected of {source} ($.sender: is missing)",
        f"1 rejected of {source} ($.amount: is not a whole number of base units)",
    ]
    assert "\n".join(lines) in capsys.readouterr().out


def test_a_quiet_build_prints_nothing_but_errors(tmp_path: Path, artifacts: Path) -> None:
    source = write_lines(tmp_path / "source.jsonl", [service("a"), {}])
    process = run_indexer("build", source, "--out", artifacts, "--quiet")
    assert (process.returncode, process.stdout) == (3, "")
    assert process.stderr.startswith(f"error: {source}: 1 of 2 records is malformed")
    options = ("--quiet", "--max-rejects", "50%", *PLAIN)
    process = run_indexer("build", source, "--out", artifacts, *options)
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")
    process = run_indexer("build", tmp_path / "none", "--out", artifacts, "--json")
    assert (process.returncode, process.stdout) == (1, "")
    assert process.stderr == f"error: {tmp_path / 'none'}: there is no such file\n"


@pytest.mark.parametrize("state", ["COPY       1 record of own, as of ", "SKIPPED    own"])
def test_a_quiet_build_prints_failed_sources_and_no_others_on_standard_error(
    state: str, tmp_path: Path, artifacts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own, other = tmp_path / "own.jsonl", tmp_path / "other.jsonl"
    catalogue = tmp_path / "catalogue.toml"
    on_error = "skip" if "SKIPPED" in state else "last"
    catalogue.write_text(
        f'[[source]]\nname = "own"\npath = "{own}"\non_error = "{on_error}"\n'
        f'[[source]]\nname = "other"\npath = "{other}"\n'
    )
    command = ["build", str(catalogue), "--out", str(artifacts), "--quiet", *PLAIN]
    for path, record in ((own, service("a")), (other, service("b"))):
        write_lines(path, [record])
    assert main(command) == 0
    own.unlink()
    assert main(command) == 0
    output = capsys.readouterr()
    reads, reason = output.err.splitlines()
    assert reads.startswith(state)
    assert (output.out, reason) == ("", f"FAILED own: there is no such file as {own}")


def test_a_malformed_source_says_what_was_published_and_how_it_is_accepted(
    tmp_path: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "feed.jsonl"
    write_lines(source, [service("a")])
    assert build(source, options=("--on-error", "last")) == 0
    write_lines(source, [service("a"), {}])
    capsys.readouterr()
    assert build(source) == 3
    error = capsys.readouterr().err
    assert f"; if that is right, --accept {source} takes it once\n" in error
    assert error.endswith("\nnothing was published; what was published before stays\n")
    assert build(source, options=("--on-error", "last")) == 0
    output = capsys.readouterr().out
    assert f"FAILED {source}: 1 of 2 records is malformed" in output
    assert "nothing was published" not in output
    assert build(source, options=("--accept", str(source))) == 0


@pytest.mark.parametrize("first", ["rows", "header"])
def test_payments_that_lost_all_rows_publish_nothing_until_they_are_accepted(
    first: str, tmp_path: Path, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    row = payment()
    header, values = ",".join(row), ",".join(map(str, row.values()))
    may, june = tmp_path / "may.csv", tmp_path / "june.csv"
    may.write_text(f"{header}\n{values}\n" if first == "rows" else f"{header}\n")
    june.write_text(f"{header}\n")
    options = ("--transactions", str(tmp_path / "*.csv"))
    assert build([service("a")], options=options) == 0
    may.write_text(f"{header}\n")
    served = open_snapshot(artifacts).id
    capsys.readouterr()
    assert build([service("b")], options=options) == (3 if first == "rows" else 0)
    if first == "rows":
        assert f"{may}: has lost all its payments; if that is right, " in capsys.readouterr().err
        assert open_snapshot(artifacts).id == served
        assert build([service("b")], options=(*options, "--accept", options[1])) == 0
        assert build([service("c")], options=options) == 0


@pytest.mark.parametrize("case", ["CURRENT", "manifest", "format"])
def test_lost_payments_are_noticed_where_the_served_snapshot_cannot_be_read(
    case: str, tmp_path: Path, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    row = payment()
    header, values = ",".join(row), ",".join(map(str, row.values()))
    payments = tmp_path / "payments.csv"
    payments.write_text(f"{header}\n{values}\n")
    options = ("--transactions", str(payments))
    for name in "ab":
        assert build([service(name)], options=options) == 0
    manifest = folder(artifacts) / MANIFEST
    if case == "CURRENT":
        (artifacts / CURRENT).write_text("")
    elif case == "manifest":
        manifest.write_bytes(manifest.read_bytes()[:100])
    else:
        content = json.loads(manifest.read_bytes())
        manifest.write_text(json.dumps(content | {"format": FORMAT - 1, "counts": []}))
    payments.write_text(f"{header}\n")
    capsys.readouterr()
    assert build([service("c")], options=options) == 3
    assert f"{payments}: has lost all its payments; if that is right, " in capsys.readouterr().err


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-"])
def test_a_build_needs_no_standard_output_or_error(
    closed: str, tmp_path: Path, artifacts: Path
) -> None:
    source = write_lines(tmp_path / "source.jsonl", [service("a")])
    command = f'exec "$0" -m indexer build "$1" --out "$2" --no-semantic --no-downloads {closed}'
    arguments = ["sh", "-c", command, sys.executable, source, str(artifacts)]
    finished = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")
    assert main(["verify", str(artifacts)]) == 0


def test_text_of_a_source_is_sanitised_and_stays_on_its_line(
    tmp_path: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = f"{ESCAPE}[2J\nall is well\u202e"
    records = priced("0.01", "1000", category=evil)
    for record in records:
        record["endpoints"][0]["pricing"]["currency"] = evil
    records.append(service("bad", endpoints=[endpoint() | {"parameters": [{"group": evil}]}]))
    records.append(service(evil))
    options = ("--max-rejects", "50%", *overlays(tmp_path, {evil: {"name": "x"}}))
    assert build(records, options=options) == 0
    output = capsys.readouterr().out
    assert all(letter.isprintable() or letter == "\n" for letter in output)
    assert not any(line.startswith("all is well") for line in output.splitlines())
    assert output.count("unused overlay: ") == 1


@pytest.mark.parametrize("semantic", [True, False])
def test_the_manifest_names_the_encoder_of_the_vectors(
    build: Build, artifacts: Path, capsys: pytest.CaptureFixture[str], semantic: bool
) -> None:
    assert build([service()], options=("--json",), whole=semantic) == 0
    name = load_encoder().name if semantic else ""
    assert reported(capsys)["encoder"] == read_manifest(folder(artifacts)).encoder == name
    assert main(["verify", str(artifacts)]) == 0
    assert (", encoder static " in capsys.readouterr().out) == semantic
