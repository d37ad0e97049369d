"""The parts of a stored record that columns are made of."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from indexer.x402.untrusted import NULL
from service.filtering.facets import folded
from service.snapshot.endpoints import ADDED_MEMBERS


class Price(Struct, rename="camel", gc=False):
    """The price of an endpoint; amounts are empty where there are none."""

    amount: str
    currency: str
    network: str = ""
    scheme: str = ""
    min_amount: str = ""
    max_amount: str = ""

    @property
    def compared(self) -> str:
        """The amount that filters of endpoints compare: the most that a request may cost.

        It is the ceiling of the scheme `upto`, else the fixed amount or the upper bound, else the
        lower bound; empty where none is given.
        """
        if not self.max_amount:
            return self.amount or self.min_amount
        is_ceiling = not self.amount or folded(self.scheme) == "upto"
        return self.max_amount if is_ceiling else self.amount


class Quality(Struct, rename="camel", gc=False):
    """The part of the use of an endpoint that orders endpoints."""

    l30_days_total_calls: str = "0"


class Parameter(Struct, gc=False):
    """The part of a parameter that is searched."""

    name: str


class Endpoint(Struct, rename="camel", gc=False):
    """The part of an endpoint that is searched, filtered and ordered by.

    service, match: members that responses add, in place of its own ones
    """

    url: str
    method: str
    pricing: Price
    quality: Quality | None = None
    description: str = ""
    parameters: list[Parameter] = []
    tags: list[str] = []
    tool: Raw = NULL
    pay_to: Raw = NULL
    service: Raw = NULL
    match: Raw = NULL


class Service(Struct, rename="camel", gc=False):
    """The part of a service that is searched, filtered and ordered by."""

    id: str
    name: str
    description: str
    endpoints: list[Endpoint]
    category: str = ""
    domain: str | None = None
    networks: list[str] = []
    integration_type: str = ""
    tags: list[str] = []
    enriched: bool = False


decode_service = msgspec.json.Decoder(Service).decode
decode_list = msgspec.json.Decoder(list[Raw]).decode
decode_members = msgspec.json.Decoder(dict[str, Raw]).decode


def size_of(raw: Raw) -> int:
    """Return how many bytes JSON has."""
    return memoryview(raw).nbytes


def summarise(members: dict[str, Raw], endpoints: int) -> bytes:
    """Return the service of these members with empty `endpoints` and an `endpointCount`."""
    return msgspec.json.encode(members | {"endpoints": Raw(b"[]"), "endpointCount": endpoints})


def without_added_members(endpoint: Raw) -> bytes:
    """Return an endpoint without the members that responses add."""
    members = decode_members(endpoint)
    kept = {name: raw for name, raw in members.items() if name not in ADDED_MEMBERS}
    return msgspec.json.encode(kept)
