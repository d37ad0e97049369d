"""The options of a build, as one frozen object."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from pathlib import Path

from msgspec import Struct

from service.opensearch.connection import ClusterAddress
from service.publishing.artifacts import KEPT
from service.search.config import SEARCH_CONFIG, SearchConfig

ARTIFACTS = Path("artifacts")


class Kind(StrEnum):
    """What a source holds."""

    RESOURCES = "resources"
    RECORDS = "records"
    PAYMENTS = "payments"
    OVERLAY = "overlay"


class OnError(StrEnum):
    """What becomes of a build whose source has failed.

    FAIL: nothing is published
    LAST: the last accepted copy is read, within `max_age`
    SKIP: its listings are left out
    """

    FAIL = "fail"
    LAST = "last"
    SKIP = "skip"


class SourceOptions(Struct, frozen=True, kw_only=True):
    """A source of a build: a URL, or a path, which may be a folder, a pattern or `-`.

    name: in messages, reports and manifests
    kind: None where each record of a file says whether it is a resource or a catalogue record
    trust: of several sources the one with the larger number wins
    curated: whether `enriched`, `isNew` and ids are believed
    hides: whether its records hide the resources of their hosts that they do not name
    max_age: of the last accepted copy, in seconds
    every: least seconds between two walks of a feed in pages
    max_removed: share of the listings of the last accepted copy that may go or change their payee
    max_items: of the source
    headers, params: sent with each request to the origin of the URL; never shown
    columns: of payments: the column of the files for each column that is read
    chain: of payments without a column of it
    """

    name: str
    url: str = ""
    path: str = ""
    kind: Kind | None = None
    trust: int = 0
    curated: bool = False
    hides: bool = False
    on_error: OnError = OnError.FAIL
    max_age: int = 7 * 24 * 3600
    every: int = 3600
    max_removed: Fraction = Fraction(1, 10)
    max_items: int = 10_000_000
    headers: dict[str, str] = {}
    params: dict[str, str] = {}
    columns: dict[str, str] = {}
    chain: str = ""


class Stablecoin(Struct, frozen=True):
    """A token that prices may be in; `usd` tells those of which one unit is a US dollar."""

    network: str
    address: str
    currency: str
    decimals: int
    usd: bool = True


class Denial(Struct, frozen=True, kw_only=True):
    """What is taken down, and why: everything that has one of these values, which are not empty.

    host: of URLs, with `*` for any characters
    domain: of services, compared as host names are
    payee: an address that is paid to
    id: of a service
    url: of an endpoint, compared in its normal form
    """

    host: str = ""
    domain: str = ""
    payee: str = ""
    id: str = ""
    url: str = ""
    reason: str = ""


class Policy(Struct, frozen=True):
    """Which listings are published; `max_price` is in units of the currency, `max_age` in seconds.

    endpoints_per_service: of a discovered service; its record has no more
    """

    max_price: Decimal = Decimal(10_000)
    allow_http: bool = False
    allow_private: bool = False
    deny: tuple[Denial, ...] = ()
    endpoints_per_service: int = 1_000
    max_age: int | None = None
    stablecoins: tuple[Stablecoin, ...] = ()


class Limits(Struct, frozen=True):
    """Bounds on reading one feed.

    seconds: deadline from the first request to the last byte, retries and repeated walks included
    silence: seconds without a byte after which a connection counts as lost
    bytes: decompressed, of all responses of one walk
    page_bytes: of one JSON text, which is read whole: a page or an array
    pages: of one walk
    attempts: for one response
    backoff: seconds before the second attempt, about; doubled before each further one
    share: minimum share of the announced items that the feed must return
    allow_private: read a feed whose host name resolves to a private address
    """

    seconds: float = 600
    silence: float = 30
    bytes: int = 4 * 2**30
    page_bytes: int = 512 * 2**20
    pages: int = 100_000
    attempts: int = 5
    backoff: float = 0.5
    share: float = 0.5
    allow_private: bool = False


class Ranking(Struct, frozen=True):
    """Whether searches rank by meaning, too, by the packaged encoder; and their parameters."""

    is_semantic: bool = True
    search: SearchConfig = SEARCH_CONFIG


STATIC_RANKING = Ranking()


class ClusterOptions(Struct, frozen=True):
    """The cluster that gets the postings of a snapshot, and how.

    prefix: of the names of indexes and aliases
    shards: primary shards of each index
    replicas: copies of each shard
    grace: seconds for which the indexes of a snapshot outlast its folder
    """

    address: ClusterAddress
    prefix: str = "ratecard"
    shards: int = 3
    replicas: int = 1
    grace: int = 3600

    @property
    def name(self) -> str:
        """The part that the id of a snapshot depends on."""
        return f"opensearch {self.prefix}"


class BuildOptions(Struct, frozen=True, kw_only=True):
    """The options of a build.

    sources: of all kinds; among equally trusted ones later catalogue records win
    accept: names of sources that are taken although they lost or changed too much
    out: the artifacts folder
    rejects: the file that lists rejected records
    max_rejects: maximum share of malformed records in one source
    ranking: how texts are encoded and ranked
    endpoints: whether endpoints are found by their texts
    from_scratch: use nothing that earlier builds kept, and walk every feed
    forget: use none of the decisions of the served snapshot
    keep: number of snapshots that stay on disk, and in the buckets
    publish: URLs of the buckets to push to
    sign: the file of the key that signs publications
    downloads: whether archives of the snapshot are made
    cluster: the cluster that gets the postings; None leaves them in the snapshot
    jobs: maximum number of indexing processes; None for one on each available CPU
    memory: bytes of memory to plan for; None for what is available
    """

    sources: tuple[SourceOptions, ...]
    accept: frozenset[str] = frozenset()
    out: Path = ARTIFACTS
    rejects: Path | None = None
    max_rejects: Fraction = Fraction(1, 100)
    policy: Policy = Policy()
    limits: Limits = Limits()
    ranking: Ranking = STATIC_RANKING
    jobs: int | None = None
    memory: int | None = None
    endpoints: bool = True
    from_scratch: bool = False
    forget: bool = False
    keep: int = KEPT
    publish: tuple[str, ...] = ()
    sign: Path | None = None
    downloads: bool = True
    cluster: ClusterOptions | None = None
