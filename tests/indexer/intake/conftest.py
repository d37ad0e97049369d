"""Fixtures of the tests of feeds."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "feeds"
