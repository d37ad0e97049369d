"""The schema of what probes saw of an endpoint: dated facts, which stand under `ratecard`."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType, field

from service.schema.values import Timestamp


class Probe(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The last observation of a prober.

    `outcome` is one of `quoted` (402 with a price), `answered`, `blocked`, `unreachable` and
    `not_probed`.
    """

    prober: str
    observed_at: Timestamp
    outcome: str
    status: int | UnsetType = UNSET
    latency_ms: float | UnsetType = UNSET


class Terms(Struct, frozen=True, kw_only=True, rename="camel"):
    """A way to pay; `amount` is in base units of the asset."""

    scheme: str
    network: str
    asset: str
    amount: str
    pay_to: str


class Drift(Struct, frozen=True, kw_only=True):
    """The listed ways to pay that the 402 contradicts, and the ways that it quotes instead.

    `since` is the date of the first observation since which each one contradicts the listing.
    """

    listed: list[Terms]
    quoted: list[Terms]
    since: Timestamp


class Deliveries(Struct, frozen=True):
    """The purchases that observers signed, to a payee that the listing names.

    `delivered` are those that were served as declared; `last` is the date of the newest record.
    """

    purchases: int
    delivered: int
    last: Timestamp
    observers: int


class ProbeFacts(Struct, kw_only=True):
    """The observations of an endpoint: the verdict of probers, and the last one.

    `alive` is left out where the observations decide nothing; where it is false, `since` is the
    date of the first observation that failed. `lastSeen` is the last 402 with a price. `wildcard`
    is true for a host that answers any path with 402.
    """

    alive: bool | UnsetType = UNSET
    since: Timestamp | UnsetType = UNSET
    last_seen: Timestamp | UnsetType = field(name="lastSeen", default=UNSET)
    probe: Probe | UnsetType = UNSET
    wildcard: bool | UnsetType = UNSET
    drift: Drift | UnsetType = UNSET
    deliveries: Deliveries | UnsetType = UNSET


NO_PROBE_FACTS = ProbeFacts()
