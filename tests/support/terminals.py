"""Pseudo-terminals, and what commands show on them."""

from __future__ import annotations

import os
import pty
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout, suppress
from unittest.mock import patch

from indexer.__main__ import main

STYLE = re.compile(r"\x1b\[[0-9;]*m")


def on_terminal(columns: int, *arguments: str, **environment: str) -> str:
    """What a command of the indexer shows on a terminal of so many columns."""
    variables = {"COLUMNS": str(columns), "TERM": "xterm-256color"} | environment
    ours, theirs = pty.openpty()
    with ThreadPoolExecutor() as pool:  # a terminal buffers a few KB only
        shown = pool.submit(read_terminal, ours)
        with (
            patch.dict(os.environ, variables),
            open(theirs, "w", encoding="utf-8") as out,  # noqa: PTH123  # it is no path
            redirect_stdout(out),
        ):
            assert main([*arguments]) == 0
        return shown.result().replace("\r\n", "\n")


def read_terminal(descriptor: int) -> str:
    """Read a terminal until nobody has it open for writing, and close it."""
    shown = b""
    with suppress(OSError), open(descriptor, "rb", buffering=0) as file:
        while part := file.read(65536):
            shown += part
    return shown.decode()
