"""The arguments that a shell passes to curl."""

from __future__ import annotations

import subprocess
from pathlib import Path


def arguments(command: str, folder: Path) -> list[str]:
    """Run a command in a folder, with a `curl` that prints its arguments, and return these."""
    script = f"curl() {{ printf '%s\\0' \"$@\"; }}\n{command}\n"
    run = ["/bin/bash", "-c", script]
    done = subprocess.run(run, capture_output=True, check=True, timeout=10, cwd=folder)
    assert not done.stderr
    return done.stdout.decode().split("\0")[:-1]
