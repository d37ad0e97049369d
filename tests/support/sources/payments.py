"""Payment files, and the answers that a snapshot with them gives."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.support.running import Build, Json, service

ANY_REJECTS = ("--max-rejects", "100%")
HEADER = "chain,block_timestamp,sender,recipient,amount,decimals,tx_hash,log_index"


def items(artifacts: Path) -> list[Json]:
    """Return the newest payments of the snapshot."""
    text = open_snapshot(artifacts).ecosystem.transactions(0, 200)[0]
    transactions: list[Json] = json.loads(b"[%b]" % text)
    return transactions


def hashes(artifacts: Path) -> set[str]:
    """Return the transaction hashes of the newest payments."""
    return {item["tx_hash"] for item in items(artifacts)}


def overview(artifacts: Path, timeframe: int = 30) -> Json:
    """Return the totals of the snapshot."""
    snapshot: Snapshot = open_snapshot(artifacts)
    totals: Json = json.loads(snapshot.ecosystem.overview(timeframe))
    return totals


def row(number: int, sender: str = "0xa", log_index: str = "1") -> str:
    """Return a line of CSV with the columns of HEADER; the number is the transaction hash."""
    return f"base,2026-05-07T10:16:51Z,{sender},0xb,10000,6,0x{number},{log_index}"


def write_rows(path: Path, rows: list[str], end: str = "\n") -> str:
    """Write lines of CSV below HEADER."""
    path.write_bytes(end.join([HEADER, *rows, ""]).encode())
    return str(path)


def write_csv(path: Path, rows: list[Json]) -> str:
    """Write records as CSV, with the keys of the first as the header."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


def read_rejects(build: Build, payments: object, listing: Path) -> list[Json]:
    """Build with these payments; returns their rejects."""
    options = (*ANY_REJECTS, "--rejects", str(listing))
    assert build([service()], payments=payments, options=options) == 0
    return [json.loads(line) for line in listing.read_text().splitlines()]


def list_rejects(build: Build, payments: object, listing: Path) -> list[tuple[str, str]]:
    """Build with these payments; returns the position and the reason of every reject."""
    rejects = read_rejects(build, payments, listing)
    return [(reject["position"], reject["reason"]) for reject in rejects]
