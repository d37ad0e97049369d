"""The manifest: what it may name."""

from __future__ import annotations

import msgspec
import pytest

from service.opensearch.indexes import index_names
from service.snapshot.manifest import ClusterIndexes


def test_the_names_of_a_build_are_valid() -> None:
    names = index_names("my_shop-2", "0123456789abcdef0123")
    assert msgspec.json.decode(msgspec.json.encode(names), type=ClusterIndexes) == names


@pytest.mark.parametrize("name", ["*", "a-services-*", "a-services-1,secret", "_all", "-a", "A"])
def test_a_manifest_names_no_other_indexes_of_a_cluster(name: str) -> None:
    text = msgspec.json.encode({"services": name, "endpoints": "a-endpoints-1"})
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=ClusterIndexes)
