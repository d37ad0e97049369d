"""Progress of a build: bars on a terminal, lines elsewhere, or nothing."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.misbehaving import misbehaving, pages_of
from tests.support.running import (
    ROOT,
    Build,
    payment,
    service,
    write_lines,
)
from tests.support.terminals import read_terminal
from tests.support.x402 import resource

ESCAPE = "\x1b"
STAGES = {
    "compare with the last build",
    "read",
    "count the payments",
    "write the services",
    "index",
    "compile",
    "publish",
}


def test_without_a_terminal_each_long_stage_has_a_plain_line(
    build: Build, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.progress.MIN_SECONDS", 0.0)
    assert build([service("a")], payments=[payment()]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert ESCAPE not in said.out
    assert set(re.findall(r"^([a-z ]+): [0-9.]+ s$", said.out, re.MULTILINE)) == STAGES
    for option in ("--quiet", "--json"):
        assert build([service("b")], options=(option,)) == 0
        assert "compile:" not in capsys.readouterr().out


def test_a_terminal_shows_bars_and_a_pipe_only_lines(tmp_path: Path, artifacts: Path) -> None:
    records = [service(f"s{number:03}") for number in range(600)]
    source = write_lines(tmp_path / "source.jsonl", records)
    shown, printed = bars_of(source, artifacts)
    assert "600/600" in shown
    assert all(name in shown for name in ("read", "write the services", "index", "compile"))
    assert f"{ESCAPE}[?25h" in shown[shown.rindex(f"{ESCAPE}[?25l") :]  # the cursor is back
    assert ESCAPE not in printed
    assert printed.splitlines()[-1].startswith("published ")
    for option in ("--quiet", "--json"):
        assert bars_of(source, tmp_path / option, option)[0] == ""


def test_a_terminal_shows_the_items_and_bytes_of_a_feed(artifacts: Path) -> None:
    resources = [resource(f"https://s{number}.example/") for number in range(25)]
    with misbehaving(pages_of(resources)) as server:
        shown, _ = bars_of(server.url, artifacts)
    assert re.search(r"fetch .*25/25.* MB", shown)


def test_a_terminal_without_rich_shows_lines(tmp_path: Path, artifacts: Path) -> None:
    source = write_lines(tmp_path / "source.jsonl", [service("a")])
    code = "import sys; sys.modules['rich'] = None; from indexer.__main__ import main; main()"
    shown, printed = bars_of(source, artifacts, python=("-c", code))
    assert shown == ""
    assert printed.splitlines()[-1].startswith("published ")


def bars_of(
    source: str, artifacts: Path, *options: str, python: tuple[str, ...] = ("-m", "indexer")
) -> tuple[str, str]:
    """Returns what a build shows on a terminal, and what it prints into a pipe."""
    ours, theirs = pty.openpty()
    command = [sys.executable, *python, "build", source, "--out", str(artifacts), *options]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=theirs, text=True, env=environment
    ) as process:
        os.close(theirs)
        shown = read_terminal(ours)
        printed, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return shown, printed
