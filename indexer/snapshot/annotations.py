"""Writing `annotations.arrays`: the members `ratecard` of endpoints, and the profiles of services.

endpoints: the `Texts` of all endpoints, each what probers saw of it and the words of the operator
services: the `Texts` of the profiles of services

A text is empty where there is nothing to say.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import UNSET
from msgspec.structs import asdict

from indexer.derive.records import decode_annotations
from indexer.probes.observation import Outcome
from indexer.probes.verdicts import verdict_of
from service.arrays.container import writing_arrays
from service.arrays.texts import write_texts
from service.schema.listings import Advice
from service.schema.probes import NO_PROBE_FACTS, ProbeFacts
from service.schema.profiles import EndpointFacts, Profile

_encode = msgspec.json.Encoder().encode


class AnnotatedServices(NamedTuple):
    """The services in listing order.

    profiles: those of services, by ordinal
    verdicts: int8[endpoints], of probers
    deliveries: int8[endpoints], of observers who bought
    advice: uint16[endpoints], bits of `Advice` that follow from what probers saw
    """

    profiles: dict[int, Profile]
    verdicts: npt.NDArray[np.int8]
    deliveries: npt.NDArray[np.int8]
    advice: npt.NDArray[np.uint16]


def write_annotations(
    folder: Path, annotations: Iterable[bytes], counts: Sequence[int], probed: Iterator[ProbeFacts]
) -> AnnotatedServices:
    """Write the file of services, in listing order.

    annotations, counts: the encoded annotations of each, and the number of its endpoints
    probed: the observations of the endpoints
    """
    profiles: dict[int, Profile] = {}
    seen = array("h")

    def endpoints() -> Iterator[bytes]:
        for ordinal, (text, count) in enumerate(zip(annotations, counts, strict=True)):
            annotated = decode_annotations(text)
            if annotated.profile is not None:
                profiles[ordinal] = annotated.profile
            for number, facts in enumerate(islice(probed, count)):
                seen.extend(_summarise(facts))
                profile = annotated.endpoint_profiles.get(number)
                if profile is annotated.profile is None and facts == NO_PROBE_FACTS:
                    yield b""
                    continue
                own, common = profile or UNSET, annotated.profile or UNSET
                yield _encode(EndpointFacts(**asdict(facts), profile=own, service_profile=common))

    with writing_arrays(folder / "annotations.arrays") as writer:
        write_texts(writer, "endpoints", endpoints())
        services = map(profiles.get, range(len(counts)))
        write_texts(writer, "services", (_encode(each) if each else b"" for each in services))
    verdicts, deliveries, advice = np.asarray(seen).reshape(-1, 3).T
    return AnnotatedServices(
        profiles, verdicts.astype(np.int8), deliveries.astype(np.int8), advice.astype(np.uint16)
    )


def _summarise(facts: ProbeFacts) -> tuple[int, int, int]:
    """Return the verdicts of probers and of observers, and advice."""
    probe, bought = facts.probe or None, facts.deliveries or None
    delivered = 0 if bought is None else 1 if bought.delivered else -1
    advice = 0 if facts.drift is UNSET else Advice.OTHER_TERMS
    if probe is not None and (probe.outcome, probe.status) == (Outcome.ANSWERED, 200):
        advice |= Advice.ANSWERS_UNPAID
    return verdict_of(facts), delivered, advice
