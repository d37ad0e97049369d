"""Payment files, and the answers that they lead to."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.support.running import Json

ALL = ("--max-rejects", "100%")


def items(artifacts: Path) -> list[Json]:
    found: list[Json] = json.loads(
        b"[%b]" % open_snapshot(artifacts).ecosystem.transactions(0, 200)[0]
    )
    return found


def overview(artifacts: Path, timeframe: int = 30) -> Json:
    snapshot: Snapshot = open_snapshot(artifacts)
    found: Json = json.loads(snapshot.ecosystem.overview(timeframe))
    return found


def write_csv(path: Path, rows: list[Json]) -> str:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return str(path)
