"""Observations of a small catalogue, read as a build reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec

from indexer.intake.findings import Findings
from indexer.intake.rules import Rules
from indexer.intake.sources import Input
from indexer.options import Kind, Policy, SourceOptions
from indexer.probes.drift import listed_terms
from indexer.probes.read import Targets, read_probes
from indexer.probes.verdicts import ProbeVerdicts
from indexer.progress import Stage
from tests.support.sources.payments import open_database

NOW = datetime(2026, 5, 20, 12, tzinfo=UTC)
URL = "https://weather.example/v1/now"
USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
ENTRY = {
    "scheme": "exact",
    "network": "base",
    "asset": USDC,
    "payTo": "0xAbC",
    "amount": "1000",
}
QUOTE = ENTRY | {"network": "eip155:8453", "asset": USDC.lower(), "payTo": "0xabc"}

Line = Mapping[str, Any]


def ago(**age: float) -> str:
    """Return a time before the build."""
    return (NOW - timedelta(**age)).isoformat()


def seen(outcome: str, observed_at: object, **members: Any) -> dict[str, Any]:
    """Return an observation of URL."""
    return {"url": URL, "observed_at": observed_at, "outcome": outcome} | members


def quoted(observed_at: object, **members: Any) -> dict[str, Any]:
    """Return an observation of URL that quotes what is listed, but for some members."""
    return seen("quoted", observed_at, status=402, quotes=[QUOTE | members])


def source(
    path: Path,
    lines: Iterable[Line | bytes],
    name: str = "",
    trust: int = 1,
    observers: Sequence[str] = (),
) -> Input:
    """Write observations to a file, as a source."""
    texts = [each if isinstance(each, bytes) else msgspec.json.encode(each) for each in lines]
    path.write_bytes(b"\n".join(texts) + b"\n")
    named = name or path.name
    options = SourceOptions(
        name=named, path=str(path), kind=Kind.PROBES, trust=trust, observers=tuple(observers)
    )
    return Input(options, named, str(path))


def read(
    inputs: Sequence[Input],
    *,
    listed: Iterable[tuple[str, str, list[Any]]] = ((URL, "GET", [ENTRY]),),
    findings: Findings | None = None,
) -> ProbeVerdicts:
    """Read observations of endpoints, given the URL, the method and `accepts` of each."""
    targets = Targets()
    terms = {targets.add(url, method): listed_terms(entries) for url, method, entries in listed}
    with open_database() as database:
        return read_probes(
            inputs,
            targets,
            terms.__getitem__,
            Rules(Policy(), None, NOW),
            findings or Findings(None),
            database=database,
            now=NOW,
            max_rejects=Fraction(1),
            progress=Stage(),
        )
