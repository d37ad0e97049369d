"""The options of a build, as one frozen object."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Self

from msgspec import Meta, Struct
from msgspec.structs import replace

from indexer.declarations import Amount, Count, Duration, Flag, Seconds, Share, Size, Texts
from indexer.search_options import STATIC_RANKING, ClusterOptions, RankingOptions
from service.artifacts.publishing import KEPT

ARTIFACTS = Path("artifacts")
UNUSED_SECONDS = 30 * 24 * 60 * 60
"""Seconds after which a copy of a source that no build has read is removed."""


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


class OnError(StrEnum):
    """The course of a build whose source has failed, as `SourceOptions.on_error` describes."""

    FAIL = "fail"
    LAST = "last"
    SKIP = "skip"


SCOPES = (
    dict.fromkeys(("every", "headers", "params"), "URLs")
    | dict.fromkeys(("columns", "chain"), "payments")
    | dict.fromkeys(("trust", "max_items"), "listings and probes")
    | dict.fromkeys(("curated", "hosts", "hides", "on_error", "max_age", "max_removed"), "listings")
)
"""Keys of SourceOptions that are for sources of one sort alone."""


class SourceOptions(Struct, frozen=True, kw_only=True):
    """A source of a build: a URL, or a path, which may be a folder, a pattern or `-`.

    kind: None where each record of a file says whether it is a resource or a catalogue record
    """

    name: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=100,
            title="1 to 100 printable characters",
            description="name in messages, reports and manifests, which no other source has",
        ),
    ]
    url: Annotated[
        str,
        Meta(
            pattern=r"^$|^[Hh][Tt][Tt][Pp][Ss]?://[^/]",
            title="an http or https URL",
            description="URL of a feed or a file",
        ),
    ] = ""
    path: Annotated[
        str, Meta(description="file, folder or pattern, relative to the file that names it")
    ] = ""
    kind: Annotated[
        Kind | None,
        Meta(
            title=f"one of {', '.join(Kind)}",
            description="`resources` (what a URL gives by default), `records`, `openapi`, "
            "`mpp`, `manifest`, `payments`, `overlay` or `probes`; without it the content of a "
            "file says which of the first five it is",
        ),
    ] = None
    trust: Annotated[
        int,
        Meta(
            ge=-1000,
            le=1000,
            title="a whole number from -1000 to 1000",
            description="of several sources the one with the larger number wins, and probes above "
            "0 decide; by default 1 for a path and 0 for a URL",
        ),
    ] = 0
    curated: Annotated[
        bool,
        Meta(description="believe `enriched`, `isNew` and ids, as those of a path are by default"),
        Flag(),
    ] = False
    hosts: Annotated[
        tuple[str, ...],
        Meta(
            title="a list of host names",
            description="the hosts that documents may describe, with `*` for any characters; by "
            "default all for a curated source, and those of its own registrable domain for a URL",
        ),
    ] = ()
    hides: Annotated[
        bool,
        Meta(description="hide the resources of the hosts of its records that these do not name"),
    ] = False
    on_error: Annotated[
        OnError,
        Meta(
            title="one of fail, last, skip",
            description="when a source fails: `fail` publishes nothing, `last` (the default in a "
            "catalogue file) reads its last accepted copy, `skip` leaves its listings out",
        ),
        Flag("ACTION"),
    ] = OnError.FAIL
    max_age: Annotated[
        Seconds, Meta(description="greatest age of the copy that `last` reads"), Flag("TIME")
    ] = 7 * 24 * 3600
    every: Annotated[
        Seconds,
        Meta(
            description="time between the starts of two walks of a feed in pages; a tenth less is "
            "enough"
        ),
        Flag("TIME"),
    ] = 3600
    max_removed: Annotated[
        Share,
        Meta(
            description="share of the listings of the last accepted copy that may go or change "
            "their payee; beyond it the source has failed"
        ),
        Flag("SHARE"),
    ] = Fraction(1, 10)
    max_items: Annotated[
        Count, Meta(description="number of items beyond which a source has failed"), Flag("N")
    ] = 10_000_000
    headers: Annotated[
        Texts,
        Meta(
            description="header of requests to the origin of the URL; `env:NAME` as value is that "
            "of an environment variable"
        ),
        Flag("NAME=VALUE", "--header"),
    ] = {}
    params: Annotated[
        Texts,
        Meta(description="parameter of the URL; `env:NAME` as value likewise"),
        Flag("NAME=VALUE", "--param"),
    ] = {}
    columns: Annotated[
        Texts,
        Meta(description="column of payments by its name in the files, such as `sender=payer`"),
        Flag("OURS=THEIRS", "--column"),
    ] = {}
    chain: Annotated[
        str, Meta(description="network of payments that have no column of it"), Flag("NETWORK")
    ] = ""

    @property
    def is_listed(self) -> bool:
        """Whether the source gives services or resources."""
        return self.kind not in {Kind.PAYMENTS, Kind.OVERLAY, Kind.PROBES}

    def takes(self, key: str) -> bool:
        """Whether a key of SCOPES, or any other, means something for this source."""
        is_meant = {
            "URLs": bool(self.url),
            "payments": self.kind is Kind.PAYMENTS,
            "listings": self.is_listed,
            "listings and probes": self.is_listed or self.kind is Kind.PROBES,
        }
        return is_meant.get(SCOPES.get(key, ""), True)


class Stablecoin(Struct, frozen=True):
    """A token that prices may be in; `usd` says that one unit is a US dollar."""

    network: Annotated[str, Meta(min_length=1, title="the name of a network")]
    address: Annotated[str, Meta(min_length=1, title="the address of a token")]
    currency: Annotated[str, Meta(min_length=1, title="a currency such as USDC")]
    decimals: Annotated[int, Meta(ge=0, le=36, title="a whole number from 0 to 36")]
    usd: bool = True


class Denial(Struct, frozen=True, kw_only=True):
    """A removal by a host, a domain, a payee, an id or a URL, and its reason.

    host: of URLs, with `*` for any characters
    domain: of services, compared as host names are
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


class Policy(Struct, frozen=True):
    """Which listings are published."""

    max_price: Annotated[
        Amount,
        Meta(
            description="believe no price above this, in units of the currency: leave out "
            "discovered resources without another one"
        ),
        Flag("AMOUNT"),
    ] = Decimal(10_000)
    allow_http: Annotated[
        bool, Meta(description="keep discovered resources that are not encrypted"), Flag()
    ] = False
    allow_private: Annotated[
        bool,
        Meta(description="keep discovered resources on localhost or at private addresses"),
        Flag(),
    ] = False
    deny: Annotated[
        tuple[Denial, ...],
        Meta(
            description="take down everything of a `host:` (with `*` for any characters), "
            "`domain:`, `payee:` or `id:`, or the endpoint of a URL"
        ),
        Flag("TEXT"),
    ] = ()
    endpoints_per_service: Annotated[
        Count,
        Meta(description="greatest number of endpoints in the record of a discovered service"),
        Flag("N"),
    ] = 1_000
    max_age: Annotated[
        Seconds | None,
        Meta(description="leave out discovered resources that were updated longer ago"),
        Flag("TIME", "--max-listing-age"),
    ] = None
    probe_max_age: Annotated[
        Seconds,
        Meta(description="time for which an endpoint is alive after a 402 with a price"),
        Flag("TIME"),
    ] = 7 * 24 * 3600
    stablecoins: Annotated[
        tuple[Stablecoin, ...],
        Meta(
            description="tokens that prices may be in, beside those that are known: tables of "
            "`network`, `address`, `currency`, `decimals` and `usd` (true unless one unit is no "
            "US dollar)"
        ),
    ] = ()


class Limits(Struct, frozen=True):
    """Bounds on reading one feed.

    seconds: deadline from the first request to the last byte, retries included
    silence: seconds without a byte after which a connection counts as lost
    bytes: decompressed, of all responses
    page_bytes: of one JSON text, which is read whole: a page or an array
    pages: of one walk
    attempts: for one response
    backoff: seconds before the second attempt, about; doubled before each further one
    """

    seconds: Annotated[
        float, Duration, Meta(description="deadline of each feed"), Flag("TIME", "--feed-seconds")
    ] = 600
    silence: float = 30
    bytes: Annotated[
        Size,
        Meta(description="maximum size of each feed, decompressed"),
        Flag("SIZE", "--feed-bytes"),
    ] = 4 * 2**30
    page_bytes: int = 64 * 2**20
    pages: int = 100_000
    attempts: int = 5
    backoff: float = 0.5
    allow_private: Annotated[
        bool,
        Meta(description="read feeds whose host name resolves to a private address"),
        Flag(name="--allow-private-feeds"),
    ] = False


class BuildOptions(Struct, frozen=True, kw_only=True):
    """The options of a build; among equally trusted sources later catalogue records win.

    cluster: gets the postings; None leaves them in the snapshot
    """

    sources: tuple[SourceOptions, ...]
    accept: Annotated[
        frozenset[str],
        Meta(description="take the source of this name although it lost or changed too much"),
        Flag("NAME"),
    ] = frozenset()
    out: Annotated[Path, Meta(description="the artifacts folder"), Flag("FOLDER")] = ARTIFACTS
    rejects: Annotated[
        Path | None,
        Meta(description="list the rejects in this file, one JSON object a line"),
        Flag("FILE"),
    ] = None
    max_rejects: Annotated[
        Share,
        Meta(description="publish nothing when more than this share of one source is malformed"),
        Flag("SHARE"),
    ] = Fraction(1, 100)
    policy: Policy = Policy()
    limits: Limits = Limits()
    ranking: RankingOptions = STATIC_RANKING
    jobs: Annotated[
        Count | None,
        Meta(
            description="use at most N processes to index, and N threads to count payments; by "
            "default one for each available CPU"
        ),
        Flag("N"),
    ] = None
    memory: Annotated[
        Size | None,
        Meta(
            description="use at most this much memory, such as `512M` or `2G` (powers of 1024), in "
            "all processes together; by default half of what is available, and no more than `1G` "
            "unless the sources need it"
        ),
        Flag("SIZE"),
    ] = None
    from_scratch: Annotated[
        bool,
        Meta(
            description="derive everything anew, and nothing from what the last build kept, and "
            "walk every feed; the same sources give the same snapshot"
        ),
        Flag(),
    ] = False
    forget: Annotated[
        bool,
        Meta(description="use none of the decisions of the served snapshot, such as ids"),
        Flag(),
    ] = False
    keep: Annotated[
        Count,
        Meta(
            description="how many snapshots stay on disk, at least the published one and one "
            "that a rollback can go back to"
        ),
        Flag("N"),
    ] = KEPT
    downloads: Annotated[
        bool,
        Meta(description="make no files for `ratecard fetch` and mirrors to copy"),
        Flag(name="--no-downloads"),
    ] = True
    cluster: ClusterOptions | None = None
