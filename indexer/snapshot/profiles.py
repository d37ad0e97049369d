"""Writing the files of `service.snapshot.profiles`."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from indexer.columns.annotations import decode_annotations
from indexer.record_store import write_record_store
from service.schema.profiles import Profile
from service.storage.container import write_arrays
from service.storage.layouts import PROFILES
from service.storage.record_store import RecordStore


def write_profiles(built: Path, annotations: Path, counts: Sequence[int]) -> dict[int, Profile]:
    """Write the profiles of services and of their endpoints; returns the profiles of services.

    annotations: a `RecordStore` of the annotations of each service
    counts: the number of endpoints of each service
    """
    store = RecordStore(annotations.parent, annotations.name)
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
    write_record_store(built, "profile_texts", [*own, *texts])
    arrays = {
        "services": np.fromiter(services, np.int32, len(services)),
        "endpoints": np.asarray(endpoints, np.int32),
    }
    write_arrays(built / "profiles", PROFILES, arrays)
    return services
