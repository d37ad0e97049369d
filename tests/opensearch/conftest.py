"""One cluster of three nodes for these tests; a test that stops nodes starts them again."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.support.cluster.cluster import Cluster, missing, run_cluster


class EngineOptions(NamedTuple):
    """The options with which a snapshot is built and served."""

    name: str
    build: tuple[str, ...] = ()
    serve: tuple[str, ...] = ()


def options_of(cluster: Cluster, prefix: str, shards: int = 3) -> EngineOptions:
    """Return the options of a catalogue in a cluster; searches are patient with busy machines."""
    where = ("--opensearch-url", cluster.url, "--opensearch-prefix", prefix)
    loading = (*where, "--opensearch-shards", str(shards))
    return EngineOptions("opensearch", loading, (*where, "--opensearch-timeout", "60"))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A cluster of three nodes."""
    if reason := missing():
        pytest.skip(reason)
    with run_cluster() as cluster:
        yield cluster


@pytest.fixture
def prefix() -> str:
    """An unused prefix of names of indexes."""
    return f"test-{secrets.token_hex(4)}"


@pytest.fixture
def options(cluster: Cluster, prefix: str) -> EngineOptions:
    """The options of an unused catalogue in the cluster, of one shard: it is built faster."""
    return options_of(cluster, prefix, shards=1)


@pytest.fixture(
    scope="module",
    params=["embedded", pytest.param("opensearch", marks=pytest.mark.opensearch)],
)
def engine(request: pytest.FixtureRequest) -> EngineOptions:
    """The options of each engine."""
    if request.param == "embedded":
        return EngineOptions("embedded")
    cluster: Cluster = request.getfixturevalue("cluster")
    return options_of(cluster, f"contract-{secrets.token_hex(4)}")
