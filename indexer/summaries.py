"""The second stored form of a service: without its endpoints, for readers who pay by the word."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Raw

from service.store import Store

_fields = msgspec.json.Decoder(dict[str, Raw])
_list = msgspec.json.Decoder(list[Raw])


def summarise_services(services: Store) -> Iterator[bytes]:
    """The stored services with `"endpoints":[]` and their number as `endpointCount`."""
    for ordinal in range(len(services)):
        fields = _fields.decode(services.text(ordinal))
        count = len(_list.decode(fields["endpoints"]))
        yield msgspec.json.encode(fields | {"endpoints": Raw(b"[]"), "endpointCount": count})
