"""Writing the files of `service.snapshot.profiles`."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from indexer.derive.records import decode_annotations
from service.schema.profiles import Profile
from service.storage.container import open_arrays, write_arrays, writing_arrays
from service.storage.texts import Texts, write_texts


def write_profiles(built: Path, annotations: Path, counts: Sequence[int]) -> dict[int, Profile]:
    """Write the profiles of services and of their endpoints; returns the profiles of services.

    annotations: a `Texts` of the annotations of each service
    counts: the number of endpoints of each service
    """
    store = Texts(open_arrays(annotations), "annotations")
    services: dict[int, Profile] = {}
    endpoints, texts = array("i"), []
    first = 0
    for ordinal, count in enumerate(counts):
        annotated = decode_annotations(store.text(ordinal))
        if annotated.profile is not None:
            services[ordinal] = annotated.profile
        for number, profile in sorted(annotated.endpoint_profiles.items()):
            endpoints.append(first + number)
            texts.append(msgspec.json.encode(profile))
        first += count
    own = [msgspec.json.encode(profile) for profile in services.values()]
    with writing_arrays(built / "profile_texts.arrays") as writer:
        write_texts(writer, "profiles", [*own, *texts])
    arrays = {
        "services": np.fromiter(services, np.int32, len(services)),
        "endpoints": np.asarray(endpoints, np.int32),
    }
    write_arrays(built / "profiles.arrays", arrays)
    return services
