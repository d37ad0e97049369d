"""Profiles, the words of the operator on services and endpoints: found by ordinal."""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path
from typing import NamedTuple

import msgspec

from service.schema.profiles import Profile
from service.storage.container import open_arrays
from service.storage.layouts import PROFILES
from service.storage.memory_map import items_of
from service.storage.record_store import RecordStore

_decoder = msgspec.json.Decoder(Profile)


class ProfileTable(NamedTuple):
    """The profiles of services or of endpoints, of which few have one.

    ordinals: those that have one, ascending; the text of the first has the number `first`
    """

    ordinals: memoryview
    texts: RecordStore
    first: int

    def find(self, ordinal: int) -> memoryview | None:
        """Return the JSON of a profile, or None."""
        place = bisect_left(self.ordinals, ordinal)
        if place == len(self.ordinals) or self.ordinals[place] != ordinal:
            return None
        return self.texts.view(self.first + place)

    def read(self, ordinal: int) -> Profile | None:
        """Return a profile, or None."""
        text = self.find(ordinal)
        return None if text is None else _decoder.decode(text)


class Profiles:
    """The profiles of a snapshot."""

    def __init__(self, folder: Path) -> None:
        arrays = open_arrays(folder / "profiles", PROFILES)
        services, endpoints = items_of(arrays["services"]), items_of(arrays["endpoints"])
        texts = RecordStore(folder, "profile_texts")
        self.services = ProfileTable(services, texts, 0)
        self.endpoints = ProfileTable(endpoints, texts, len(services))
