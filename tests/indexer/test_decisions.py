"""Decisions: stored with a snapshot, and read by the next build."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.decisions import (
    FILE,
    MAX_CONFLICTS,
    Decisions,
    DecisionTable,
    read_decisions,
)
from indexer.errors import SourceError
from indexer.intake.findings import Conflict
from service.schema.status import Counts
from service.snapshot.manifest import FORMAT, MANIFEST, Manifest, hash_file

names = st.text(max_size=5)
Settled = list[tuple[str, str]]


def store(folder: Path, decisions: Decisions) -> DecisionTable:
    """Write decisions, and read them as the next build does."""
    decisions.write(folder)
    return read_decisions(folder)


def write_manifest(folder: Path, *names: str) -> None:
    """Write the manifest of a snapshot of these files."""
    files = {name: hash_file(folder / name) for name in names}
    manifest = Manifest(FORMAT, "0" * 20, datetime.now(UTC), Counts(0, 0, 0, 0), [], files)
    (folder / MANIFEST).write_bytes(msgspec.json.encode(manifest))


def settle(ids: Settled, sources: Settled, claims: list[str]) -> Decisions:
    decisions = Decisions()
    for plain_id, domain in ids:
        decisions.own(plain_id, domain)
    for key, source in sources:
        decisions.take(key, source)
    for claim in claims:
        decisions.count(claim)
    return decisions


@given(st.dictionaries(names, names), st.dictionaries(names, names), st.lists(names), st.data())
def test_decisions_are_found_again_and_their_bytes_depend_on_nothing_else(
    tmp_path_factory: pytest.TempPathFactory,
    ids: dict[str, str],
    sources: dict[str, str],
    claims: list[str],
    data: st.DataObject,
) -> None:
    folder = tmp_path_factory.mktemp("snapshot")
    served = Decisions(store(folder, settle([*ids.items()], [*sources.items()], claims)))
    text = (folder / FILE).read_bytes()
    for plain_id, domain in ids.items():
        assert served.owner_of(plain_id) == domain
    for key, source in sources.items():
        assert served.source_of(key) == source
    assert all(map(served.has_claim, claims))
    other_ids, other_sources = (
        data.draw(st.permutations([*each.items()])) for each in (ids, sources)
    )
    other_claims = data.draw(st.permutations(claims)) + claims[:1]
    store(folder, settle(other_ids, other_sources, other_claims))
    assert (folder / FILE).read_bytes() == text


def test_what_was_never_decided_is_not_found() -> None:
    decisions = Decisions(DecisionTable(ids={"a": "a.example"}))
    assert decisions.owner_of("b") == decisions.source_of("a") == ""
    assert not decisions.has_claim("a")


def test_decisions_that_are_not_made_again_end_except_claims_that_are_kept(tmp_path: Path) -> None:
    table = store(tmp_path, settle([("a", "a.example")], [("key", "source")], ["claim"]))
    decisions = Decisions(table)
    decisions.keep_claims()
    assert store(tmp_path, decisions) == DecisionTable(claims=table.claims)


def test_a_bounded_number_of_conflicts_is_stored(tmp_path: Path) -> None:
    decisions = Decisions()
    decisions.conflicts = [
        Conflict(f"https://a.example/{number:06}", "feed", "0xa", "other", "0xb")
        for number in range(MAX_CONFLICTS + 1)
    ]
    table = store(tmp_path, decisions)
    assert str(table.conflicts[0]) == (
        "https://a.example/000000 pays 0xa by feed, and 0xb by other"
    )
    assert table.conflicts == decisions.conflicts[:-1]


def test_an_older_snapshot_has_no_decisions(tmp_path: Path) -> None:
    write_manifest(tmp_path)
    assert read_decisions(tmp_path) == DecisionTable()
    (tmp_path / MANIFEST).write_text('{"format": 2}')
    assert read_decisions(tmp_path) == DecisionTable()


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff", b'{"ids": 1}'])
def test_damaged_decisions_are_an_error_that_says_what_to_do(
    content: bytes | None, tmp_path: Path
) -> None:
    path = tmp_path / FILE
    Decisions().write(tmp_path)
    write_manifest(tmp_path, FILE)
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(SourceError, match=r"is damaged.*`rollback`.*--forget"):
        read_decisions(tmp_path)


@pytest.mark.parametrize("manifest", ['{"format": 2, "files": []}', '{"format":'])
def test_decisions_are_read_without_a_manifest_of_this_format(
    manifest: str, tmp_path: Path
) -> None:
    (tmp_path / MANIFEST).write_text(manifest)
    table = store(tmp_path, settle([("a", "a.example")], [], []))
    assert table.ids == {"a": "a.example"}
