"""Sources of the last build: which copy of each was read, and why not the current one."""

from __future__ import annotations

from pathlib import Path

from service.schema.status import SourceState
from service.storage.json_file import read_json

SOURCES = "sources.json"
"""The file in the artifacts folder, which each build replaces."""


def read_sources(artifacts: Path) -> list[SourceState]:
    """Return the sources of the last build, none where no build of this version wrote them."""
    return read_json(artifacts / SOURCES, list[SourceState]) or []
