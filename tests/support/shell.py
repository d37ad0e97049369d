"""What a person's shell makes of a command that is pasted into it."""

from __future__ import annotations

import subprocess
from pathlib import Path


def arguments(command: str, folder: Path) -> list[str]:
    """What curl is given when a command is run in a folder, where all else would leave a trace."""
    script = f"curl() {{ printf '%s\\0' \"$@\"; }}\n{command}\n"
    run = ["/bin/bash", "-c", script]
    done = subprocess.run(run, capture_output=True, check=True, timeout=10, cwd=folder)
    assert not done.stderr
    return done.stdout.decode().split("\0")[:-1]
