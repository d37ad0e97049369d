"""Writing the facts that probers saw of endpoints."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import UNSET

from indexer.probes.verdicts import verdict_of
from service.schema.probes import NO_PROBE_FACTS, ProbeFacts
from service.storage.container import writing_arrays
from service.storage.texts import write_texts


class ProbedEndpoints(NamedTuple):
    """The endpoints in listing order.

    verdicts: int8[endpoints]
    drifted: bool[endpoints], whether the 402 has other terms than the listing
    """

    verdicts: npt.NDArray[np.int8]
    drifted: npt.NDArray[np.bool_]


def write_probes(folder: Path, endpoints: Iterable[ProbeFacts]) -> ProbedEndpoints:
    """Write the facts of endpoints in listing order."""
    verdicts, drifted = array("b"), bytearray()

    def rows() -> Iterator[bytes]:
        for facts in endpoints:
            verdicts.append(verdict_of(facts))
            drifted.append(facts.drift is not UNSET)
            yield b"" if facts == NO_PROBE_FACTS else msgspec.json.encode(facts)

    with writing_arrays(folder / "probes.arrays") as writer:
        write_texts(writer, "probes", rows())
    return ProbedEndpoints(np.asarray(verdicts, np.int8), np.frombuffer(drifted, np.bool_))
