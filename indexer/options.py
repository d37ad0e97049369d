"""The options of a build, as frozen objects.

The type of a field carries its bound, and the docstring its description, which `--help` and the
documents repeat.
"""

from __future__ import annotations

import re
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Self

from msgspec import Meta, Struct
from msgspec.structs import replace

from service.artifacts.publishing import KEPT
from service.search.config import SEARCH_CONFIG, SearchConfig

ARTIFACTS = Path("artifacts")
UNUSED_SECONDS = 30 * 24 * 60 * 60
"""Seconds after which a copy of a source that no build has read is removed."""

DURATIONS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 24 * 3600}
SIZES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
UNITS = dict.fromkeys(("max_age", "probe_max_age", "every", "grace", "seconds"), DURATIONS)
UNITS |= dict.fromkeys(("memory", "bytes"), SIZES)
"""Units of the fields that may be written with one."""

_duration = re.compile(r"([0-9]{1,12})([smhd]?)")
_size = re.compile(r"([0-9]{1,12})([KMGT]?)(?:I?B)?", re.IGNORECASE)
_share = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?)%")


def read_quantity(field: str, value: object) -> object:
    """Return a text such as `7d` or `512M` as a number, other values of any field as they are.

    Raises ValueError, which does not quote the value.
    """
    if field not in UNITS or not isinstance(value, str):
        return value
    is_size = UNITS[field] is SIZES
    match = (_size if is_size else _duration).fullmatch(value)
    if match is None:
        form = "size such as 512M or 2G" if is_size else "duration such as 90s, 1h or 7d"
        raise ValueError(f"Expected a {form}")
    return int(match[1]) * UNITS[field][match[2].upper() if is_size else match[2]]


def read_value(kind: type[Any], value: object) -> object:
    """Return a path or a share: the `dec_hook` of options; raises ValueError without the value."""
    if kind is Path:
        return Path(str(value))
    match = _share.fullmatch(str(value))
    share = Fraction(match[1]) / 100 if match else None
    if share is None or share > 1:
        raise ValueError("Expected a percentage such as 1%")
    return share


class Kind(StrEnum):
    """The content of a source."""

    RESOURCES = "resources"
    RECORDS = "records"
    OPENAPI = "openapi"
    MPP = "mpp"
    MANIFEST = "manifest"
    PAYMENTS = "payments"
    OVERLAY = "overlay"
    PROBES = "probes"


DOCUMENTS = frozenset((Kind.OPENAPI, Kind.MPP, Kind.MANIFEST))
LISTINGS = DOCUMENTS | {Kind.RESOURCES, Kind.RECORDS}
SCOPES = (
    dict.fromkeys(("columns", "chain"), frozenset((Kind.PAYMENTS,)))
    | dict.fromkeys(("trust", "max_items"), LISTINGS | {Kind.PROBES})
    | dict.fromkeys(("curated", "on_error", "max_age", "max_removed"), LISTINGS)
    | {"hosts": DOCUMENTS, "hides": frozenset((Kind.RECORDS,))}
    | {"observers": frozenset((Kind.PROBES,))}
)
"""Keys of SourceOptions that are for sources of some kinds alone."""
OF_URLS = ("every", "headers", "params")
"""Keys of SourceOptions that are for URLs alone."""


class OnError(StrEnum):
    """The course of a build whose source has failed, as `SourceOptions.on_error` describes."""

    FAIL = "fail"
    LAST = "last"
    SKIP = "skip"


Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[int, Meta(ge=0)]
Text = Annotated[str, Meta(min_length=1)]


class SourceOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A source of a build: a URL, or a path, which may be a folder, a pattern or `-`.

    name: name in messages, reports and manifests, which no other source has
    url: URL of a feed or a file
    path: file, folder or pattern, relative to the file that names it
    kind: `resources` (what a URL gives by default), `records`, `openapi`, `mpp`, `manifest`,
        `payments`, `overlay` or `probes`; without it the content of a file says which of the first
        five it is
    trust: of several sources the one with the larger number wins, and probes above 0 decide; by
        default 1 for a path and 0 for a URL
    curated: believe `enriched`, `isNew` and ids, as those of a path are by default
    hosts: the hosts that documents may describe, with `*` for any characters; by default all for a
        curated source, and those of its own registrable domain for a URL
    hides: hide the resources of the hosts of its records that these do not name
    on_error (--on-error ACTION): when a source fails: `fail` publishes nothing, `last` (the default
        in a catalogue file) reads its last accepted copy, `skip` leaves its listings out
    max_age: greatest age of the copy that `last` reads
    every: time between the starts of two walks of a feed in pages; a tenth less is enough
    max_removed: share of the listings of the last accepted copy that may go or change their payee;
        beyond it the source has failed
    max_items: number of items beyond which a source has failed
    headers: headers of requests to the origin of the URL; `env:NAME` as value is that of an
        environment variable
    params: parameters of the URL; `env:NAME` as value likewise
    columns: columns of payments by their names in the files, such as `sender = "payer"`
    chain: network of payments that have no column of it
    observers: addresses of the keys by which those who buy from endpoints sign their records
    """

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    url: str = ""
    path: str = ""
    kind: Kind | None = None
    trust: Annotated[int, Meta(ge=-1000, le=1000)] = 0
    curated: bool = False
    hosts: tuple[str, ...] = ()
    hides: bool = False
    on_error: OnError = OnError.FAIL
    max_age: Seconds = 7 * 24 * 3600
    every: Seconds = 3600
    max_removed: Fraction = Fraction(1, 10)
    max_items: Count = 10_000_000
    headers: dict[str, str] = {}
    params: dict[str, str | int] = {}
    columns: dict[str, str] = {}
    chain: str = ""
    observers: tuple[str, ...] = ()

    @property
    def is_listed(self) -> bool:
        """Whether the source gives services or resources."""
        return self.kind is None or self.kind in LISTINGS


class Stablecoin(Struct, frozen=True, forbid_unknown_fields=True):
    """A token that prices may be in; `usd` says that one unit is a US dollar."""

    network: Text
    address: Text
    currency: Text
    decimals: Annotated[int, Meta(ge=0, le=36)]
    usd: bool = True


class Denial(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A removal by a host, a domain, a payee, an id or a URL, and its reason.

    host: of URLs, with `*` for any characters
    domain: of services, compared as host names are; with all of its ports unless it names one
    payee: an address that is paid to
    id: of a service
    url: of an endpoint, compared in its normal form
    public: whether a report on a URL shows the reason
    """

    host: str = ""
    domain: str = ""
    payee: str = ""
    id: str = ""
    url: str = ""
    reason: str = ""
    public: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the denial of a text such as `payee:0x…` or a URL; raises ValueError."""
        key, _, value = text.partition(":")
        if key.lower() in {"http", "https"}:
            key, value = "url", text
        if key not in DENIED or not value:
            raise ValueError("expected host:, domain:, payee: or id: with a value, or a URL")
        return replace(cls(reason="--deny"), **{key: value})


DENIED = tuple(name for name in Denial.__struct_fields__ if name not in {"reason", "public"})


class Policy(Struct, frozen=True, forbid_unknown_fields=True):
    """Which listings are published.

    max_price (--max-price AMOUNT): believe no price above this, in units of the currency: leave out
        discovered resources without another one
    allow_http (--allow-http): keep discovered resources that are not encrypted
    allow_private (--allow-private): keep discovered resources on localhost or at private addresses
    deny (--deny TEXT): take down everything of a `host:` (with `*` for any characters), `domain:`,
        `payee:` or `id:`, or the endpoint of a URL
    endpoints_per_service: greatest number of endpoints in the record of a discovered service
    max_age: leave out discovered resources that were updated longer ago
    probe_max_age: time for which an endpoint is alive after a 402 with a price
    stablecoins: tokens that prices may be in, beside those that are known: tables of `network`,
        `address`, `currency`, `decimals` and `usd` (true unless one unit is no US dollar)
    """

    max_price: Decimal = Decimal(10_000)
    allow_http: bool = False
    allow_private: bool = False
    deny: tuple[Denial, ...] = ()
    endpoints_per_service: Count = 1_000
    max_age: Seconds | None = None
    probe_max_age: Seconds = 7 * 24 * 3600
    stablecoins: tuple[Stablecoin, ...] = ()


class Limits(Struct, frozen=True):
    """Bounds on reading one feed.

    seconds (--feed-seconds TIME): deadline of each feed
    silence: seconds without a byte after which a connection counts as lost
    bytes (--feed-bytes SIZE): maximum size of each feed, decompressed
    page_bytes: of one JSON text, which is read whole: a page or an array
    pages: of one walk
    attempts: for one response
    backoff: seconds before the second attempt, about; doubled before each further one
    allow_private (--allow-private-feeds): read feeds whose host name resolves to a private address
    """

    seconds: float = 600
    silence: float = 30
    bytes: Count = 4 * 2**30
    page_bytes: int = 64 * 2**20
    pages: int = 100_000
    attempts: int = 5
    backoff: float = 0.5
    allow_private: bool = False


class RankingOptions(Struct, frozen=True):
    """How searches rank.

    is_semantic (--no-semantic): rank by words alone, not by meaning as well
    search: parameters of the ranking
    """

    is_semantic: bool = True
    search: SearchConfig = SEARCH_CONFIG


STATIC_RANKING = RankingOptions()


class ClusterOptions(Struct, frozen=True):
    """The cluster that the index of a snapshot is loaded into, and how.

    client: the arguments of its client
    prefix (--opensearch-prefix NAME): beginning of the names of the indexes of this catalogue
    shards (--opensearch-shards N): primary shards of each index
    replicas (--opensearch-replicas N): copies of each shard
    """

    client: dict[str, Any]
    prefix: Annotated[
        str,
        Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,99}\Z", title="lower case letters, digits, - and _"),
    ] = "ratecard"
    shards: Annotated[int, Meta(ge=1, le=1024)] = 1
    replicas: Annotated[int, Meta(ge=0)] = 1


class BuildOptions(Struct, frozen=True, kw_only=True):
    """The options of a build; among equally trusted sources later catalogue records win.

    accept (--accept NAME): take the source of this name, whatever is malformed, lost or changed
    out (--out FOLDER): the artifacts folder
    rejects (--rejects FILE): list the rejects in this file, one JSON object a line
    max_rejects (--max-rejects SHARE): publish nothing when more than this share of one source is
        malformed
    jobs (--jobs N): use at most N processes to index, and N threads to count payments; by default
        one for each available CPU
    memory (--memory SIZE): use at most this much memory, such as `512M` or `2G` (powers of 1024),
        in all processes together; by default half of what is available, and no more than `1G`
        unless the sources need it
    from_scratch (--from-scratch): derive everything anew, and nothing from what the last build
        kept, and walk every feed; the same sources give the same snapshot
    forget (--forget): use none of the decisions of the served snapshot, such as ids
    keep (--keep N): how many snapshots stay on disk, at least the published one and one that a
        rollback can go back to
    downloads (--no-downloads): make no files for `ratecard fetch` and mirrors to copy
    whoosh: write the Whoosh index, which nobody asks in an evaluation
    cluster: gets the index of the snapshot, too; None without one
    """

    sources: tuple[SourceOptions, ...]
    accept: frozenset[str] = frozenset()
    out: Path = ARTIFACTS
    rejects: Path | None = None
    max_rejects: Fraction = Fraction(1, 100)
    policy: Policy = Policy()
    limits: Limits = Limits()
    ranking: RankingOptions = STATIC_RANKING
    jobs: Count | None = None
    memory: Count | None = None
    from_scratch: bool = False
    forget: bool = False
    keep: Count = KEPT
    downloads: bool = True
    whoosh: bool = True
    cluster: ClusterOptions | None = None
