"""Command lines of both programs and of `ratecard`: help, versions and usage errors."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sysconfig
from pathlib import Path

import pytest

from indexer.__main__ import ratecard
from indexer.cli.main import COMMANDS, parse_options
from indexer.cli.main import main as index
from service.fetch import main as run_fetch
from service.serve import EXAMPLES
from service.serve import main as run_service
from service.settings import FIELDS, describe, option, variable
from tests.support.running import run_fork, service, write_lines

PROGRAMS = {"indexer": index, "service": run_service, "service.fetch": run_fetch}


def run(module: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program with output 80 columns wide."""
    environ = os.environ | {"COLUMNS": "80", "UVICORN_PORT": "0"} | environment
    return run_fork(PROGRAMS[module], *arguments, environ=environ)


def test_the_help_of_the_service_describes_each_setting() -> None:
    process = run("service", "--help", UVICORN_PORT="nonsense")
    assert (process.returncode, process.stderr) == (0, "")
    assert max(map(len, process.stdout.splitlines())) <= 80
    words = " ".join(process.stdout.split())
    for field in FIELDS:
        assert re.search(rf"{option(field.name)}[ ,]", words)
        assert f"{describe(field)} ({variable(field.name)}, default: " in words
    assert "(RATECARD_MAX_AGE, default: 60)" in words
    for name in ("mcp", "log-requests", "page", "downloads"):
        assert f" --{name}, --no-{name} " in words
    for example in EXAMPLES:
        assert f"  {example.format(prog='python -m service')}\n" in process.stdout


@pytest.mark.parametrize("program", ["service", "indexer"])
def test_both_programs_print_their_version(program: str) -> None:
    process = run(program, "--version")
    assert process.returncode == 0
    assert process.stdout.startswith("ratecard ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["service", "--prot", "80"], "there is no option `--prot` here; did you mean `--port`?"),
        (
            ["service.fetch", "--artifact", "x"],
            "there is no option `--artifact` here; did you mean `--artifacts`?",
        ),
        (["service", "--zzzz"], "there is no option `--zzzz` here"),
        (["indexer", "serach", "x"], "there is no command `serach` here; did you mean `search`?"),
        (["indexer", "zzzz"], "there is no command `zzzz` here"),
        (
            ["indexer", "build", "--transaktions", "x"],
            "there is no option `--transaktions` here; did you mean `--transactions`?",
        ),
        (["indexer", "verify", "a", "b"], "there is no argument `b` here"),
        (["indexer", "build"], "the following arguments are required: SOURCE"),
        (["service", "artifacts"], "Got unexpected extra argument (artifacts)"),
    ],
)
def test_a_mistyped_word_is_an_error_with_a_suggestion(arguments: list[str], message: str) -> None:
    process = run(*arguments)
    assert (process.returncode, process.stdout) == (2, "")
    error, example, help_hint = process.stderr.splitlines()
    assert error == f"error: {message}"
    assert example.startswith("  for example: python -m ")
    assert help_hint.endswith(" --help")


def test_without_a_command_the_indexer_prints_its_help() -> None:
    process = run("indexer")
    assert process.returncode == 2
    assert process.stdout == run("indexer", "--help").stdout
    for name, command in COMMANDS.items():
        assert f"    {name:<10}{command.summary}\n" in process.stdout
    assert "  python -m indexer search weather forecast\n" in process.stdout


def test_the_console_script_has_the_commands_of_both_programs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = str(Path(sysconfig.get_path("scripts"), "ratecard"))
    process = subprocess.run(
        [script, "--help"], capture_output=True, text=True, check=True, timeout=60
    )
    commands = re.findall(r"^    (\w+) ", process.stdout, re.MULTILINE)
    assert commands == [*COMMANDS, "serve", "mcp", "fetch"]
    for command in ("build", "serve"):  # of the indexer, and of the service
        monkeypatch.setattr("sys.argv", [script, command, "--help"])
        with pytest.raises(SystemExit, match=r"^0$"):
            ratecard()
        assert capsys.readouterr().out.startswith(f"usage: ratecard {command} ")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_of_every_command_are_valid(name: str) -> None:
    for example in COMMANDS[name].examples:
        words = shlex.split(example.partition(" | ")[0])
        assert words[0] == name
        assert parse_options(words, "python -m indexer").run is COMMANDS[name].run


def test_a_mistyped_file_name_is_an_error(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "services.jsonl", [service()])
    mistyped = source.removesuffix("l")
    process = run("indexer", "build", mistyped, "--out", str(tmp_path / "artifacts"))
    assert process.returncode == 1
    assert process.stderr == f"error: {mistyped}: there is no such file\n"


def test_a_host_that_does_not_resolve_is_an_error() -> None:
    process = run("service", "--host", "nowhere.invalid")
    assert process.returncode == 3
    assert "Name or service not known" in process.stderr
