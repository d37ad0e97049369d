"""Profiles: what the operator of a catalogue says about a service or an endpoint."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType, field

from service.schema.probes import ProbeFacts

MAX_TEXT = 500  # characters
Words = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT)]
Tag = Annotated[str, Meta(min_length=1, max_length=50)]


class Profile(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The words of the operator, not those of the seller."""

    when_to_use: Words | UnsetType = UNSET
    limitations: Words | UnsetType = UNSET
    tags: Annotated[list[Tag], Meta(max_length=20)] | UnsetType = UNSET


class EndpointFacts(ProbeFacts, kw_only=True):
    """The observations of an endpoint, and the words of the operator on it and on its service."""

    profile: Profile | UnsetType = UNSET
    service_profile: Profile | UnsetType = field(name="serviceProfile", default=UNSET)


def searched_text(profile: Profile | None) -> str:
    """Return the searched words of a profile.

    Limitations are not searched: a service would be found by what it does not do.
    """
    if profile is None:
        return ""
    return " ".join((profile.when_to_use or "", *(profile.tags or ()))).strip()


def describe(profile: Profile | UnsetType | None) -> list[tuple[str, str]]:
    """Return the texts of a profile, each with its label, for people and agents."""
    if not profile:
        return []
    texts = (
        ("when to use", profile.when_to_use or ""),
        ("limitations", profile.limitations or ""),
        ("tags", ", ".join(profile.tags or [])),
    )
    return [(label, text) for label, text in texts if text]
