"""Profiles of services and of endpoints, as the overlays of the operator have them."""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path

import msgspec

from service.schema.profiles import Profile
from service.storage.container import open_arrays
from service.storage.layouts import PROFILES
from service.storage.memory_map import items_of
from service.storage.record_store import RecordStore

_decoder = msgspec.json.Decoder(Profile)


class Profiles:
    """The profiles of a snapshot, by ordinal; few services and endpoints have one."""

    def __init__(self, folder: Path) -> None:
        arrays = open_arrays(folder / "profiles", PROFILES)
        self._services, self._endpoints = (
            items_of(arrays["services"]),
            items_of(arrays["endpoints"]),
        )
        self._texts = RecordStore(folder, "profile_texts")

    def of_service(self, ordinal: int) -> memoryview | None:
        """Return the JSON of the profile of a service, or None."""
        return self._find(self._services, ordinal, 0)

    def of_endpoint(self, ordinal: int) -> memoryview | None:
        """Return the JSON of the profile of an endpoint, or None."""
        return self._find(self._endpoints, ordinal, len(self._services))

    def read_service(self, ordinal: int) -> Profile | None:
        """Return the profile of a service, or None."""
        text = self.of_service(ordinal)
        return None if text is None else _decoder.decode(text)

    def read_endpoint(self, ordinal: int) -> Profile | None:
        """Return the profile of an endpoint, or None."""
        text = self.of_endpoint(ordinal)
        return None if text is None else _decoder.decode(text)

    def _find(self, ordinals: memoryview, ordinal: int, first: int) -> memoryview | None:
        place = bisect_left(ordinals, ordinal)
        if place == len(ordinals) or ordinals[place] != ordinal:
            return None
        return self._texts.view(first + place)
