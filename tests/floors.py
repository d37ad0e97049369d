"""Prints the oldest releases that the package declares, as constraints for pip.

`make test-floors` installs them and runs the tests of the HTTP service, or all with `TESTS=tests`.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

PROJECT = tomllib.loads(Path("pyproject.toml").read_text())["project"]

for requirement in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["indexer"]]:
    print(requirement.replace(">=", "=="))
