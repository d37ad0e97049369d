"""Progress of a build: bars on a terminal, lines elsewhere, or nothing."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.artifacts import STAGES
from tests.support.clients.terminals import read_terminal
from tests.support.running import (
    PLAIN,
    ROOT,
    Build,
    payment,
    service,
    write_lines,
)
from tests.support.sources.feeds import misbehaving, pages_of
from tests.support.sources.x402 import resource

ESCAPE = "\x1b"


def test_without_a_terminal_each_long_stage_has_a_plain_line_of_a_verbose_build(
    build: Build, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.progress.MIN_SECONDS", 0.0)
    assert build([service("a")], payments=[payment()], options=("--verbose",)) == 0
    output = capsys.readouterr()
    assert "compile:" not in output.out
    assert ESCAPE not in output.err
    assert set(re.findall(r"^([A-Za-z ]+): [0-9.]+ s$", output.err, re.MULTILINE)) == STAGES
    for options in ([], ["--quiet", "--verbose"], ["--json", "--verbose"]):
        assert build([service("b")], options=options) == 0
        assert capsys.readouterr().err == ""


def test_a_terminal_shows_bars_and_a_pipe_only_lines(tmp_path: Path, artifacts: Path) -> None:
    records = [service(f"s{number:03}") for number in range(600)]
    source = write_lines(tmp_path / "source.jsonl", records)
    screen, output = run_on_terminal(source, artifacts)
    assert "600/600" in screen
    assert all(name in screen for name in ("read", "write the services", "derive", "index"))
    assert (
        f"{ESCAPE}[?25h" in screen[screen.rindex(f"{ESCAPE}[?25l") :]
    )  # the cursor is shown again
    assert ESCAPE not in output
    assert output.splitlines()[-1].startswith("published ")


@pytest.mark.parametrize("option", ["--quiet", "--json"])
def test_a_terminal_shows_nothing_of_a_quiet_build(
    option: str, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller, terminal = pty.openpty()
    with ThreadPoolExecutor() as pool:  # a terminal buffers only a few KB
        screen = pool.submit(read_terminal, controller)
        with os.fdopen(terminal, "w") as stderr:
            monkeypatch.setattr("sys.stderr", stderr)
            assert build([service("a")], options=(*PLAIN, option)) == 0
        assert screen.result() == ""


def test_a_terminal_shows_the_items_and_bytes_of_a_feed(artifacts: Path) -> None:
    resources = [resource(f"https://s{number}.example/") for number in range(25)]
    with misbehaving(pages_of(resources)) as server:
        screen, _ = run_on_terminal(server.url, artifacts)
    assert re.search(r"fetch .*25/25.* MB", screen)


def test_a_terminal_without_rich_shows_lines(tmp_path: Path, artifacts: Path) -> None:
    source = write_lines(tmp_path / "source.jsonl", [service("a")])
    code = (
        "import sys; sys.modules['rich'] = None; from indexer import progress; "
        "progress.MIN_SECONDS = 0.0; from indexer.__main__ import main; main()"
    )
    screen, output = run_on_terminal(source, artifacts, python=("-c", code))
    assert "index: " in screen
    assert ESCAPE not in screen
    assert output.splitlines()[-1].startswith("published ")


def test_a_build_outlives_its_terminal(tmp_path: Path, artifacts: Path) -> None:
    records = [service(f"s{number:03}") for number in range(600)]
    source = write_lines(tmp_path / "source.jsonl", records)
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "indexer", "build", source, "--out", str(artifacts), *PLAIN]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=terminal, text=True
    ) as process:
        os.close(terminal)
        os.read(controller, 1)  # the first bar is drawn
        os.close(controller)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert output.splitlines()[-1].startswith("published ")


def run_on_terminal(
    source: str, artifacts: Path, *options: str, python: tuple[str, ...] = ("-m", "indexer")
) -> tuple[str, str]:
    """Run a build; return its standard error on a terminal, and its standard output from a pipe."""
    controller, terminal = pty.openpty()
    options = ("--out", str(artifacts), *PLAIN, *options)
    command = [sys.executable, *python, "build", source, *options]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=terminal, text=True, env=environment
    ) as process:
        os.close(terminal)
        screen = read_terminal(controller)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return screen, output
