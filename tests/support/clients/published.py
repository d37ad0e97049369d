"""The published clients that `make clients` installs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.running import ROOT

CLIENTS = next(
    (path for path in (ROOT / "build/clients", ROOT.parent / "clients") if path.exists()),
    ROOT / "build/clients",
)


def skip_without(path: Path) -> None:
    """Skip a test where a client is not installed; CI has all of them."""
    if not path.exists():
        reason = f"{path} is missing: run `make clients`"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
