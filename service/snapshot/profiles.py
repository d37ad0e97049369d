"""Profiles, the words of the operator on services and endpoints: found by ordinal."""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path
from typing import NamedTuple

import msgspec

from service.schema.profiles import Profile
from service.storage.container import items_of, open_arrays
from service.storage.texts import Texts

_decoder = msgspec.json.Decoder(Profile)


class ProfileTable(NamedTuple):
    """The profiles of services or of endpoints, of which few have one.

    ordinals: those that have one, ascending; the text of the first has the number `first`
    """

    ordinals: memoryview
    texts: Texts
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
        arrays = open_arrays(folder / "profiles.arrays")
        services, endpoints = items_of(arrays["services"]), items_of(arrays["endpoints"])
        texts = Texts(open_arrays(folder / "profile_texts.arrays"), "profiles")
        self.services = ProfileTable(services, texts, 0)
        self.endpoints = ProfileTable(endpoints, texts, len(services))
