"""Profiles, the words of the operator on services and endpoints: found, and named as matches."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from service.schema.profiles import Profile, searched_text
from service.schema.responses import Explanation
from service.search.analysis import term_of, words_of
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


def name_fields(explanation: Explanation, profiles: Mapping[str, Profile | None]) -> Explanation:
    """Return an explanation whose words name the profiles, by field, that have their terms."""
    terms = {
        field: {term_of(word.text) for word in words_of(searched_text(profile))}
        for field, profile in profiles.items()
        if profile is not None
    }
    if not terms:
        return explanation
    words = []
    for word in explanation.words:
        fields = [field for field, own in terms.items() if word.term in own]
        words.append(replace(word, fields=fields) if fields else word)
    return replace(explanation, words=words)
