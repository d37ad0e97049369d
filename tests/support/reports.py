"""Reports and listings of builds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from service.snapshot.snapshot import open_snapshot
from tests.support.running import (
    Json,
)


def listed(artifacts: Path) -> list[Json]:
    """The services of the published snapshot, in listing order."""
    snapshot = open_snapshot(artifacts)
    return [json.loads(snapshot.find(each) or b"null") for each in snapshot.list(200).ids]


def ids(artifacts: Path) -> list[str]:
    return [each["id"] for each in listed(artifacts)]


def reported(captured: pytest.CaptureFixture[str]) -> Json:
    """The JSON report of the last build."""
    report: Json = json.loads(captured.readouterr().out.splitlines()[-1])
    return report


def overlays(tmp_path: Path, patches: Any) -> tuple[str, str]:
    path = tmp_path / "overlay.json"
    path.write_text(json.dumps(patches))
    return ("--overlay", str(path))
