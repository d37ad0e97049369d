"""The manifest: what it may name."""

from __future__ import annotations

import msgspec
import pytest

from service.opensearch.index import index_name
from service.snapshot.manifest import IndexName


def test_the_names_of_a_build_are_valid() -> None:
    name = index_name("my_shop-2", "0123456789abcdef0123")
    assert msgspec.json.decode(msgspec.json.encode(name), type=IndexName) == name


@pytest.mark.parametrize("name", ["*", "a-*", "a-1,secret", "_all", "-a", "A", "a-logs"])
def test_a_manifest_names_no_other_indexes_of_a_cluster(name: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(msgspec.json.encode(name), type=IndexName)
