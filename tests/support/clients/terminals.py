"""Commands on pseudo-terminals, in a shell, and with a standard output that fails."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout, suppress
from pathlib import Path
from unittest.mock import patch

from indexer.__main__ import main

STYLE = re.compile(r"\x1b\[[0-9;]*m")


def on_terminal(columns: int, *arguments: str, **environment: str) -> str:
    """Run a command of the indexer on a terminal of some columns, and return its output."""
    variables = {"COLUMNS": str(columns), "TERM": "xterm-256color"} | environment
    controller, terminal = pty.openpty()
    with ThreadPoolExecutor() as pool:  # a terminal buffers only a few KB
        output = pool.submit(read_terminal, controller)
        with (
            patch.dict(os.environ, variables),
            open(terminal, "w", encoding="utf-8") as out,  # noqa: PTH123  # a descriptor
            redirect_stdout(out),
        ):
            assert main([*arguments]) == 0
        return output.result().replace("\r\n", "\n")


def read_terminal(descriptor: int) -> str:
    """Read a terminal until all writers have closed it, and close it."""
    output = b""
    with suppress(OSError), open(descriptor, "rb", buffering=0) as file:
        while part := file.read(65536):
            output += part
    return output.decode()


def into_closed_pipe(arguments: list[str]) -> int:
    """Run a command of the indexer with a pipe that nobody reads; for `run_fork`."""
    reader, writer = os.pipe()
    os.close(reader)
    return _run_on(writer, arguments)


def onto_full_disk(arguments: list[str]) -> int:
    """Run a command of the indexer with an output that takes no byte; for `run_fork`."""
    return _run_on(os.open("/dev/full", os.O_WRONLY), arguments)


def _run_on(descriptor: int, arguments: list[str]) -> int:
    os.dup2(descriptor, 1)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    return main(arguments)


def arguments(command: str, folder: Path) -> list[str]:
    """Run a command in a folder, with a `curl` that prints its arguments, and return these."""
    script = f"curl() {{ printf '%s\\0' \"$@\"; }}\n{command}\n"
    run = ["/bin/bash", "-c", script]
    done = subprocess.run(run, capture_output=True, check=True, timeout=10, cwd=folder)
    assert not done.stderr
    return done.stdout.decode().split("\0")[:-1]
