"""Writing the table of what probers saw of endpoints."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from indexer.probes.facts import verdict_of
from indexer.record_store import write_record_store
from service.schema.probes import NO_PROBE_FACTS, ProbeFacts


def write_probes(folder: Path, endpoints: Iterable[ProbeFacts]) -> npt.NDArray[np.int8]:
    """Write the facts of endpoints in listing order; returns the verdict on each."""
    verdicts = array("b")

    def rows() -> Iterator[bytes]:
        for facts in endpoints:
            verdicts.append(verdict_of(facts))
            yield b"" if facts == NO_PROBE_FACTS else msgspec.json.encode(facts)

    write_record_store(folder, "probes", rows())
    return np.asarray(verdicts, np.int8)
