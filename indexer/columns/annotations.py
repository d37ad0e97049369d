"""Annotations: facts of a service and its endpoints that are not in its record."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from service.schema.profiles import Profile


class Annotations(Struct, frozen=True, array_like=True):
    """The annotations of a service.

    outputs: names of the output fields of each endpoint, in the order of the record
    profile: of the service
    endpoint_profiles: of endpoints, by their number in the record
    implausible: numbers of the endpoints whose prices are not believed
    """

    outputs: list[str] = []
    profile: Profile | None = None
    endpoint_profiles: dict[int, Profile] = {}
    implausible: list[int] = []

    def encode(self) -> bytes:
        """Return JSON for `decode_annotations`, empty without annotations."""
        return b"" if self == NO_ANNOTATIONS else _encode(self)


NO_ANNOTATIONS = Annotations()
_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Annotations)


def decode_annotations(text: bytes) -> Annotations:
    """Return the annotations of a service."""
    return _decoder.decode(text) if text else NO_ANNOTATIONS
