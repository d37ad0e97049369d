"""The entry of the command line: the program that it names, its options, and its errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexer.__main__ import main
from indexer.cli.main import COMMANDS, parse_options
from tests.support.running import Build, service, write_lines

ESCAPE = "\x1b[2J\x9b\u202e"


@pytest.mark.parametrize("prog", ["python -m indexer", "ratecard"])
def test_help_and_advice_name_the_program_as_it_was_called(
    prog: str, sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["--help"], *([name, "--help"] for name in COMMANDS)):
        with pytest.raises(SystemExit):
            main(arguments, prog)
        shown = capsys.readouterr().out
        assert shown.startswith(f"usage: {prog} ")
        assert f"\n  {prog} {arguments[0].replace('--help', 'build')}" in shown
        assert (prog == "ratecard") == ("python -m" not in shown)
    assert main(["search", "tide", "--artifacts", str(sample)], prog) == 0
    assert f"details: {prog} show " in capsys.readouterr().out
    assert main(["show", "tidewach-example", "--artifacts", str(sample)], prog) == 1
    assert f"for example: {prog} show tidewatch-example" in capsys.readouterr().err


def test_no_error_carries_a_control_character(
    tmp_path: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    payments = tmp_path / "payments.csv"
    payments.write_text(f"sender,{ESCAPE}\n")
    assert build([service()], payments=payments) == 1
    assert build(tmp_path / f"{ESCAPE}.jsonl") == 1
    said = capsys.readouterr().err
    assert all(letter.isprintable() or letter == "\n" for letter in said)
    assert said.count("\\x1b[2J\\x9b\\u202e") == 2


def test_no_answer_about_a_file_of_others_carries_a_control_character(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = write_lines(tmp_path / "corpus.jsonl", [{"id": ESCAPE, "name": "Maps"}])
    queries = [{"query": f"maps {ESCAPE}", "relevant": {ESCAPE: 1}}]
    judged = write_lines(tmp_path / "queries.jsonl", queries)
    assert main(["evaluate", "--corpus", corpus, "--queries", judged, "--worst", "1"]) == 0
    said = capsys.readouterr().out
    assert all(letter.isprintable() or letter == "\n" for letter in said)
    assert said.count("\\x1b[2J\\x9b\\u202e") == 3


@pytest.mark.parametrize(
    ("text", "size"),
    [("512M", 512 * 2**20), ("2G", 2**31), ("2GiB", 2**31), ("3gb", 3 * 2**30), ("4096", 4096)],
)
def test_memory_is_given_in_bytes_or_in_units_of_1024(text: str, size: int) -> None:
    options = parse_options(["build", "x", "--memory", text, "--jobs", "3"], "ratecard")
    assert (options.memory, options.jobs) == (size, 3)


@pytest.mark.parametrize(
    ("option", "text"),
    [("memory", text) for text in ("0", "0G", "-1", "2X", "much", "", "1.5G")]
    + [("jobs", text) for text in ("0", "-1", "two", "")],
)
def test_a_limit_that_is_no_number_from_1_is_refused(
    option: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_options(["build", "x", f"--{option}={text}"], "ratecard")
    assert ended.value.code == 2
    assert f"error: argument --{option}: expected a " in capsys.readouterr().err
