"""Progress of a build: bars on a terminal, lines elsewhere, or nothing."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

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


Show = Callable[..., tuple[str, str]]
"""The type of the fixture `show`."""


@pytest.fixture
def show(build: Build, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Show:
    """Return a function that builds, and returns what a terminal and a pipe show of it."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")

    def show(source: Any, *options: str) -> tuple[str, str]:
        controller, terminal = pty.openpty()
        with ThreadPoolExecutor() as pool:  # a terminal buffers only a few KB
            screen = pool.submit(read_terminal, controller)
            with os.fdopen(terminal, "w") as stderr, monkeypatch.context() as patch:
                patch.setattr("sys.stderr", stderr)
                assert build(source, options=(*PLAIN, *options)) == 0
            return screen.result(), capsys.readouterr().out

    return show


def test_a_terminal_shows_bars_and_a_pipe_only_lines(show: Show) -> None:
    screen, output = show([service(f"s{number:03}") for number in range(600)])
    assert "600/600" in screen
    assert all(name in screen for name in ("read", "write the services", "derive", "index"))
    assert f"{ESCAPE}[?25h" in screen[screen.rindex(f"{ESCAPE}[?25l") :]  # the cursor is back
    assert ESCAPE not in output
    assert output.splitlines()[-1].startswith("published ")


@pytest.mark.parametrize("option", ["--quiet", "--json"])
def test_a_terminal_shows_nothing_of_a_quiet_build(option: str, show: Show) -> None:
    assert show([service("a")], option)[0] == ""


def test_a_terminal_shows_the_items_and_bytes_of_a_feed(show: Show) -> None:
    resources = [resource(f"https://s{number}.example/") for number in range(25)]
    with misbehaving(pages_of(resources)) as server:
        screen, _ = show(server.url)
    assert re.search(r"fetch .*25/25.* MB", screen)


def test_a_terminal_without_rich_shows_lines(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setattr("indexer.progress.MIN_SECONDS", 0.0)
    screen, output = show([service("a")])
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
