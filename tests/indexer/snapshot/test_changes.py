"""The difference of two snapshots: exact, in listing order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.record_store import write_records
from indexer.snapshot.changes import compare_services
from service.storage.container import open_arrays, write_arrays
from service.storage.texts import write_ids
from tests.support.running import service as record

IDS = st.text("aB0-._~z", min_size=1, max_size=4).filter(lambda each: each not in (".", ".."))
LISTING = st.dictionaries(IDS, st.integers(0, 3), max_size=12).flatmap(
    lambda services: st.permutations(list(services.items()))
)
"""Services with a version each, in any order."""


def text(service_id: str, version: int) -> bytes:
    """Return the stored JSON of a service; some versions have the same size."""
    return json.dumps(record(service_id, version=10**version, pad="x" * (version // 2))).encode()


def stored(folder: Path, listing: list[tuple[str, bytes]]) -> Path:
    """Write the files of a snapshot that are compared."""
    folder.mkdir(parents=True)
    write_records(folder, (content for _, content in listing))
    write_ids(folder, [service_id for service_id, _ in listing])
    return folder


@given(st.lists(LISTING, min_size=2, max_size=5))
def test_an_old_list_with_all_changes_applied_equals_the_new_one(
    tmp_path_factory: pytest.TempPathFactory, history: list[list[tuple[str, int]]]
) -> None:
    root = tmp_path_factory.mktemp("history")
    listings = [[(each, text(each, version)) for each, version in listing] for listing in history]
    folders = [stored(root / str(number), listing) for number, listing in enumerate(listings)]
    for old, new in ((0, -1), (-1, 0), *((n, n + 1) for n in range(len(history) - 1))):
        before, after = dict(listings[old]), dict(listings[new])
        listed = [each for each, content in listings[new] if before.get(each) != content]
        removed = [each for each, _ in listings[old] if each not in after]
        assert [*compare_services(folders[old], folders[new])] == [
            *((before.get(each), after[each]) for each in listed),
            *((before[each], None) for each in removed),
        ]


def test_services_are_compared_by_their_bytes_where_hashes_collide(tmp_path: Path) -> None:
    before = [(each, text(each, 0)) for each in "abcd"]
    after = [(each, content.replace(b"One", b"Two")) for each, content in before]
    after[2] = before[2]
    old, new = stored(tmp_path / "old", before), stored(tmp_path / "new", after)
    offsets = open_arrays(new / "records.arrays")["offsets"].copy()
    tags = open_arrays(old / "records.arrays")["tags"]
    write_arrays(new / "records.arrays", {"offsets": offsets, "tags": tags})
    assert [each.new for each in compare_services(old, new)] == [
        after[ordinal][1] for ordinal in (0, 1, 3)
    ]


def test_an_empty_catalogue_is_all_removed_or_all_added(tmp_path: Path) -> None:
    listing = [(each, text(each, 0)) for each in ("b", "a")]
    empty, full = stored(tmp_path / "empty", []), stored(tmp_path / "full", listing)
    assert [*compare_services(empty, full)] == [(None, content) for _, content in listing]
    assert [*compare_services(full, empty)] == [(content, None) for _, content in listing]
    assert [*compare_services(empty, empty)] == []


@pytest.mark.parametrize(
    ("name", "damaged"),
    [
        ("records.json", lambda content: content[:-1]),
        ("ids.arrays", lambda content: content[:-1]),
        ("records.arrays", lambda content: content[:-1]),
        ("records.arrays", lambda _: b""),
    ],
)
def test_damaged_files_are_an_error_and_not_a_change(
    name: str, damaged: Any, tmp_path: Path
) -> None:
    old, new = (stored(tmp_path / n, [(each, text(each, 0)) for each in "ab"]) for n in "on")
    (new / name).write_bytes(damaged((new / name).read_bytes()))
    with pytest.raises(Exception, match=r"ends before|do not fit its ids|\.arrays"):
        list(compare_services(old, new))
