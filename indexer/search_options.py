"""The options of a build on searching: the ranking, and the cluster that has the postings."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from indexer.declarations import Flag, Number, Seconds
from service.opensearch.connection import ClusterAddress
from service.search.config import SEARCH_CONFIG, SearchConfig


class RankingOptions(Struct, frozen=True):
    """Whether searches rank by meaning, too, by the packaged encoder; and their parameters."""

    is_semantic: Annotated[
        bool,
        Meta(description="rank by words alone, not by meaning as well"),
        Flag(name="--no-semantic"),
    ] = True
    search: SearchConfig = SEARCH_CONFIG


STATIC_RANKING = RankingOptions()


class ClusterOptions(Struct, frozen=True):
    """The cluster that gets the postings of a snapshot, and how."""

    address: ClusterAddress
    prefix: Annotated[
        str,
        Meta(
            pattern=r"^[a-z0-9][a-z0-9_-]{0,99}\Z",
            title="lower case letters, digits, - and _, such as catalogue",
            description="beginning of the names of indexes and aliases, one for each catalogue",
        ),
        Flag("NAME"),
    ] = "ratecard"
    shards: Annotated[
        int,
        Meta(
            ge=1,
            le=1024,
            title="a whole number from 1 to 1024",
            description="primary shards of each index",
        ),
        Flag("N", "--opensearch-shards"),
    ] = 3
    replicas: Annotated[
        Number, Meta(description="copies of each shard"), Flag("N", "--opensearch-replicas")
    ] = 1
    grace: Annotated[
        Seconds,
        Meta(description="time for which the indexes of a snapshot outlast its folder"),
        Flag("TIME", "--opensearch-grace"),
    ] = 3600

    @property
    def name(self) -> str:
        """The part that the id of a snapshot depends on."""
        return f"opensearch {self.prefix}"
