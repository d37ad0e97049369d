"""The options of a build on searching: the ranking, and the cluster that is loaded."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from indexer.declarations import Flag, Number
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
    """The cluster that the index of a snapshot is loaded into, and how.

    client: the arguments of its client
    """

    client: dict[str, Any]
    prefix: Annotated[
        str,
        Meta(
            pattern=r"^[a-z0-9][a-z0-9_-]{0,99}\Z",
            title="lower case letters, digits, - and _, such as catalogue",
            description="beginning of the names of the indexes of this catalogue",
        ),
        Flag("NAME", "--opensearch-prefix"),
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
    ] = 1
    replicas: Annotated[
        Number, Meta(description="copies of each shard"), Flag("N", "--opensearch-replicas")
    ] = 1
