"""Sources of the last build: which copy of each was read, and why not the current one."""

from __future__ import annotations

from pathlib import Path

import msgspec

from service.schema.status import SourceState

SOURCES = "sources.json"
"""The file in the artifacts folder, which each build replaces."""

_states = msgspec.json.Decoder(list[SourceState])


def read_sources(artifacts: Path) -> list[SourceState]:
    """Return the sources of the last build, none where no build of this version wrote them."""
    try:
        return _states.decode((artifacts / SOURCES).read_bytes())
    except (OSError, msgspec.MsgspecError):
        return []
