"""The command line: program names in help, option values, and errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from indexer.__main__ import main
from indexer.cli.main import COMMANDS, parse_options
from indexer.cli.options import given
from indexer.options import BuildOptions
from tests.support.running import Build, service, write_lines

FULL = Path("/dev/full")
CLUSTER = ["--opensearch-url", "https://h"]
ESCAPE = "\x1b[2J\x9b\u202e"


@pytest.mark.parametrize("prog", ["python -m indexer", "ratecard"])
def test_help_names_the_program_as_it_was_called(
    prog: str, sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["--help"], *([name, "--help"] for name in COMMANDS)):
        with pytest.raises(SystemExit):
            main(arguments, prog)
        output = capsys.readouterr().out
        assert output.startswith(f"usage: {prog} ")
        assert f"\n  {prog} {arguments[0].replace('--help', 'build')}" in output
        assert (prog == "ratecard") == ("python -m" not in output)
    assert main(["search", "tide", "--artifacts", str(sample)], prog) == 0
    assert f"details: {prog} show " in capsys.readouterr().out
    assert main(["show", "tidewach-example", "--artifacts", str(sample)], prog) == 1
    assert f"for example: {prog} show tidewatch-example" in capsys.readouterr().err


def test_errors_are_sanitised(
    tmp_path: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    payments = tmp_path / "payments.csv"
    payments.write_text(f"sender,{ESCAPE}\n")
    assert build([service()], payments=payments) == 1
    assert build(tmp_path / f"{ESCAPE}.jsonl") == 1
    output = capsys.readouterr().err
    assert all(letter.isprintable() or letter == "\n" for letter in output)
    assert output.count("\\x1b[2J\\x9b\\u202e") == 2


def test_output_about_untrusted_files_is_sanitised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = [{"id": ESCAPE, "name": "Maps"}, {"id": "missed", "name": "Charts"}]
    corpus = write_lines(tmp_path / "corpus.jsonl", documents)
    queries = [{"query": f"maps {ESCAPE}", "relevant": {ESCAPE: 1, "missed": 2}}]
    judged = write_lines(tmp_path / "queries.jsonl", queries)
    assert main(["evaluate", "--corpus", corpus, "--queries", judged, "--worst", "1"]) == 0
    output = capsys.readouterr().out
    assert all(letter.isprintable() or letter == "\n" for letter in output)
    assert output.count("\\x1b[2J\\x9b\\u202e") == 3


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is full")
def test_an_array_on_a_full_disk_is_an_error_that_says_so(
    sample: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def write_array(_: Path) -> None:
        with FULL.open("wb") as file:
            np.save(file, np.zeros(2**16))

    def write_a_part(_: Path) -> None:
        raise OSError("65536 requested and 4096 written")  # as NumPy does

    for verify in (write_array, write_a_part):
        monkeypatch.setattr("indexer.cli.snapshots.verify", verify)
        assert main(["verify", str(sample)]) == 1
        assert capsys.readouterr().err.startswith("error: No space left on device")


@pytest.mark.parametrize(
    ("text", "size"),
    [("512M", 512 * 2**20), ("2G", 2**31), ("2GiB", 2**31), ("3gb", 3 * 2**30), ("4096", 4096)],
)
def test_memory_is_given_in_bytes_or_in_units_of_1024(text: str, size: int) -> None:
    options = parse_options(["build", "x", "--memory", text, "--jobs", "3"], "ratecard")
    assert given(options, BuildOptions) == {"memory": size, "jobs": 3}


@pytest.mark.parametrize(
    "arguments",
    [
        ["build", "x", "--max-reject", "1%"],
        ["build", "x", "--overlays", "y"],
        ["check", "x", "--max-reject", "1%"],
        ["search", "x", "--off", "1"],
        ["rollback", "--pub", "s3://bucket"],
    ],
)
def test_an_option_is_not_abbreviated(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_options(arguments, "ratecard")
    assert ended.value.code == 2
    assert "error: there is no option `--" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--opensearch-url", "ftp://u:hush@h"], "URL 1"),
        ([*CLUSTER, "--opensearch-shards", "0"], ">= 1"),
        (["--opensearch-prefix", "No Spaces"], "lower case"),
    ],
)
def test_wrong_options_of_a_cluster_are_usage_errors(
    options: list[str], reason: str, artifacts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status: object = main(["build", "x", "--out", str(artifacts), *options])
    except SystemExit as ended:
        status = ended.code
    error = capsys.readouterr().err
    assert (status, "hush" in error) == (2, False)
    assert reason in error
    assert not artifacts.exists()


@pytest.mark.parametrize(
    ("option", "text"),
    [("memory", text) for text in ("0", "0G", "-1", "2X", "much", "", "1.5G")]
    + [("jobs", text) for text in ("0", "-1", "two", "", "9" * 5_000)]
    + [("feed-seconds", text) for text in ("1w", "1.5h", "-1s", "h", "")]
    + [("max-rejects", text) for text in ("10", "101%", "-1%", "1/0%", "%")]
    + [("max-price", text) for text in ("cheap", "")]
    + [("opensearch-shards", text) for text in ("0", "1025")]
    + [("worst", text) for text in ("-1", "few")],
)
def test_a_value_out_of_range_or_of_another_form_is_a_usage_error(
    option: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_options(
            ["evaluate" if option == "worst" else "build", f"--{option}={text}"], "ratecard"
        )
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: argument --{option}: ")
    assert len(error) < 500
