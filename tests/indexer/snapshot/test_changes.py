"""The difference of two snapshots: exact, and in order of id."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.record_store import run_of, write_ids, write_records
from indexer.snapshot import changes
from indexer.snapshot.changes import ABSENT, compare_services
from service.storage.container import open_arrays, write_arrays
from service.storage.layouts import RECORDS
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
    write_records(folder, (run_of(content) for _, content in listing))
    write_ids(folder, [service_id for service_id, _ in listing])
    return folder


@given(st.lists(LISTING, min_size=2, max_size=5))
def test_an_old_list_with_all_changes_applied_equals_the_new_one(
    tmp_path_factory: pytest.TempPathFactory, history: list[list[tuple[str, int]]]
) -> None:
    root = tmp_path_factory.mktemp("history")
    listings = [[(each, text(each, version)) for each, version in listing] for listing in history]
    folders = [stored(root / str(number), listing) for number, listing in enumerate(listings)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes, "CHUNK", 100)
        for old, new in ((0, -1), (-1, 0), *((n, n + 1) for n in range(len(history) - 1))):
            before, after = dict(listings[old]), dict(listings[new])
            lines, ids = dict(before), list[str]()
            difference = compare_services(folders[old], folders[new])
            for earlier, later in zip(*(side.tolist() for side in difference), strict=True):
                if later == ABSENT:
                    ids.append(listings[old][earlier][0])
                    del lines[ids[-1]]
                    continue
                service_id, content = listings[new][later]
                assert earlier == ABSENT or listings[old][earlier][0] == service_id
                assert (earlier == ABSENT) is (service_id not in before)
                ids.append(service_id)
                lines[service_id] = content
            assert ids == sorted(k for k in before | after if before.get(k) != after.get(k))
            assert lines == after


def test_services_are_compared_by_their_bytes_where_hashes_collide(tmp_path: Path) -> None:
    before = [(each, text(each, 0)) for each in "abcd"]
    after = [(each, content.replace(b"One", b"Two")) for each, content in before]
    after[2] = before[2]
    old, new = stored(tmp_path / "old", before), stored(tmp_path / "new", after)
    offsets = open_arrays(new / "records", RECORDS)["offsets"].copy()
    tags = open_arrays(old / "records", RECORDS)["tags"]
    write_arrays(new / "records", RECORDS, {"offsets": offsets, "tags": tags})
    difference = compare_services(old, new)
    assert difference.old.tolist() == difference.new.tolist() == [0, 1, 3]


def test_one_long_id_does_not_make_the_comparison_larger(tmp_path: Path) -> None:
    ids = [f"service-{number}" for number in range(5000)]

    def peak(name: str, last: str) -> int:
        folder = tmp_path / name
        folder.mkdir()
        write_records(folder, (run_of(b"{}") for _ in range(5001)))
        write_ids(folder, [*ids, last])
        tracemalloc.start()
        compare_services(folder, folder)
        try:
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak("long", "x" * 256) < peak("short", "x") + 10_000


def test_an_empty_catalogue_is_all_removed_or_all_added(tmp_path: Path) -> None:
    empty = stored(tmp_path / "empty", [])
    full = stored(tmp_path / "full", [(each, text(each, 0)) for each in ("b", "a")])
    assert [side.tolist() for side in compare_services(empty, full)] == [[ABSENT] * 2, [1, 0]]
    assert [side.tolist() for side in compare_services(full, empty)] == [[1, 0], [ABSENT] * 2]
    assert [side.tolist() for side in compare_services(empty, empty)] == [[], []]


@pytest.mark.parametrize(
    ("name", "damaged"),
    [
        ("records.json", lambda content: content[:-1]),
        ("ids.arrays", lambda content: content.replace(b'"a","b"', b"xaxxxbx")),
        ("records.arrays", lambda content: content[:-1]),
        ("records.arrays", lambda _: b""),
    ],
)
def test_damaged_files_are_an_error_and_not_a_change(
    name: str, damaged: Any, tmp_path: Path
) -> None:
    old, new = (stored(tmp_path / n, [(each, text(each, 0)) for each in "ab"]) for n in "on")
    (new / name).write_bytes(damaged((new / name).read_bytes()))
    with pytest.raises(Exception, match=r"ends before|do not fit its ids|records\.arrays"):
        compare_services(old, new)
