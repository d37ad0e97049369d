"""Explanations: the fields of the operator's words that have a term."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from service.schema.profiles import Profile, searched_text
from service.schema.responses import Explanation
from service.search.analysis import term_of, words_of


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
