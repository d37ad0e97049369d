"""Differences of two snapshots: added, changed and removed services, and their prices."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.errors import Misuse
from indexer.record_store import write_records
from indexer.snapshot.compare import (
    COMPARED_FILES,
    ChangeCounts,
    compare,
    compare_with_served,
    count_changes,
    find_snapshot,
    summarise_difference,
)
from service.arrays.texts import write_ids
from service.errors import SnapshotDamaged, SnapshotMissing, SnapshotUnsupported
from service.schema.status import Counts
from service.snapshot.manifest import FORMAT, MANIFEST, Manifest
from tests.support.running import Build, Json, endpoint, service
from tests.support.sources.x402 import accept, resource

BUILT_AT = datetime(2026, 5, 7, tzinfo=UTC)


def published(artifacts: Path) -> Path:
    return find_snapshot(artifacts, str(artifacts))


def stored(folder: Path, records: list[Json]) -> Path:
    """Write a folder with a manifest, records and ids only."""
    folder.mkdir(parents=True)
    manifest = Manifest(FORMAT, folder.name, BUILT_AT, Counts(0, 0, 0, 0), [], {})
    (folder / MANIFEST).write_bytes(msgspec.json.encode(manifest))
    write_records(folder, (json.dumps(record).encode() for record in records))
    write_ids(folder, [record["id"] for record in records])
    return folder


def changed_keys(folder: Path, old: Json, new: Json) -> list[str]:
    difference = compare(stored(folder / "old", [old]), stored(folder / "new", [new]))
    (change,) = difference.changed
    return change.keys


def test_a_difference_is_printed_as_lines(artifacts: Path, build: Build) -> None:
    old = [
        service("gone", name="Gone"),
        service("unchanged"),
        service("moved", description="before", tags=[]),
        service("dearer", endpoints=[endpoint("0.01")]),
    ]
    new = [
        service("dearer", endpoints=[endpoint("0.02"), endpoint("0.5")], enriched=True),
        service("unchanged"),
        service("fresh", name="Frésh"),
        service("moved", description="after", category="Data"),
    ]
    assert build(old) == 0
    before = published(artifacts)
    assert build(new) == 0
    difference = compare(before, published(artifacts))
    assert summarise_difference(difference).splitlines() == [
        "+ fresh  Frésh",
        "- gone  Gone",
        "~ dearer  One: endpoints, enriched, priceSummary (0.01 USDC → 0.02–0.5 USDC)",
        "~ moved  One: description, category, tags",
        "1 added, 2 changed, 1 removed",
    ]
    assert count_changes(before, published(artifacts)) == ChangeCounts(1, 2, 1)


def test_a_difference_is_printed_as_json(tmp_path: Path) -> None:
    price = {"minAmount": "1", "maxAmount": "1", "currency": "USDC"}
    old = stored(tmp_path / "old", [service("a", priceSummary=price), service("b"), service("c")])
    new = stored(tmp_path / "new", [service("d"), service("a"), service("b", name="Two")])
    assert json.loads(msgspec.json.encode(compare(old, new))) == {
        "old": "old",
        "new": "new",
        "added": [{"id": "d", "name": "One"}],
        "removed": [{"id": "c", "name": "One"}],
        "changed": [
            {
                "id": "a",
                "name": "One",
                "keys": ["priceSummary"],
                "price": {"old": price, "new": None},
            },
            {"id": "b", "name": "Two", "keys": ["name"]},
        ],
        "conflicts": [],
    }


def summed(minimum: str, maximum: str, average: str = "") -> Json:
    amounts = {"minAmount": minimum, "maxAmount": maximum, "avgCostPerTransaction": average}
    return {"priceSummary": amounts | {"avgCostBasis": "varies", "currency": "USDC"}}


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ({}, summed("", ""), " (no price → no fixed price)"),
        ({"priceSummary": None}, summed("", "2"), " (no price → at most 2 USDC)"),
        (summed("1", "2"), summed("1", "1"), " (1–2 USDC → 1 USDC)"),
        (summed("1", "2"), summed("1", "2", "1.5"), ""),
        ({}, {"priceSummary": None}, ""),
    ],
)
def test_a_changed_price_range_is_shown(old: Json, new: Json, change: str, tmp_path: Path) -> None:
    before = stored(tmp_path / "old", [service("a", **old)])
    difference = compare(before, stored(tmp_path / "new", [service("a", **new)]))
    line = summarise_difference(difference).splitlines()[0]
    assert line == f"~ a  One: priceSummary{change}"


def paid(*payees: object) -> Json:
    """Return a service whose endpoints are paid at these addresses."""
    endpoints = [
        endpoint() | {"url": f"https://a.example/{number}", "payTo": payee}
        for number, payee in enumerate(payees)
    ]
    return service("a", endpoints=endpoints)


def test_an_endpoint_that_is_paid_at_another_address_is_shown(tmp_path: Path) -> None:
    old = stored(tmp_path / "old", [paid("0xa", "0xb", None, "0xd")])
    new = stored(tmp_path / "new", [paid("0xa", "0xc\n", "0xn", 7, "0xnew")])
    lines = summarise_difference(compare(old, new)).splitlines()
    assert lines[1:-1] == [
        "    https://a.example/1 pays 0xc\\n, and paid 0xb",
        "    https://a.example/2 pays 0xn, and paid none",
        "    https://a.example/3 pays no address, and paid 0xd",
    ]


@pytest.mark.parametrize(
    ("old", "new", "is_jump"),
    [
        ("0.001", "0.01", True),
        ("0.001", "0.0099", False),
        ("5", "0.5", True),
        ("0", "0.01", True),
        ("0.00", "0", False),
        ("", "1", False),
        ("9" * 40, "1", True),
    ],
)
def test_a_price_that_moved_tenfold_is_shown(
    old: str, new: str, is_jump: bool, tmp_path: Path
) -> None:
    before, after = (
        stored(tmp_path / name, [service("a", version=name, endpoints=[endpoint(price)])])
        for name, price in (("old", old), ("new", new))
    )
    lines = summarise_difference(compare(before, after)).splitlines()
    jump = f"    https://api.one.example/v1 costs {new} USDC, and cost {old}"
    assert lines[1:-1] == [jump] * is_jump


def test_prices_are_compared_by_currency_ceiling_and_tool(tmp_path: Path) -> None:
    upto = {"scheme": "upto", "maxAmount": "1"}
    versions = [
        [endpoint("1", "EURC"), endpoint("0.1", **upto), endpoint("1") | {"tool": "a"}],
        [endpoint("100", "USDC"), endpoint("0.9", **upto), endpoint("10") | {"tool": "b"}],
    ]
    for endpoints in versions:
        for number, each in enumerate(endpoints):
            each["url"] = f"https://a.example/{number}"
    old, new = (
        stored(tmp_path / str(number), [service("a", endpoints=endpoints)])
        for number, endpoints in enumerate(versions)
    )
    (change,) = compare(old, new).changed
    assert change.prices == []


def test_another_spelling_of_an_address_is_no_other_payee(tmp_path: Path) -> None:
    old = stored(tmp_path / "old", [paid("0xAbC", "SoLanA")])
    new = stored(tmp_path / "new", [paid("0xabc", "solana")])
    (change,) = compare(old, new).changed
    assert [each.url for each in change.payees] == ["https://a.example/1"]


def test_a_new_conflict_of_sources_about_a_payee_is_shown(
    tmp_path: Path, artifacts: Path, build: Build
) -> None:
    honest = resource("https://a.example/", accept(payTo="0xHonest"))
    liar = resource("https://a.example/", accept(payTo="0xLiar"))
    assert build([honest]) == 0
    before = published(artifacts)
    assert build([honest], [liar]) == 0
    after = published(artifacts)
    difference = compare(before, after)
    names = [str(tmp_path / f"source{number}.jsonl") for number in (0, 1)]
    (conflict,) = difference.conflicts
    assert (conflict.served, conflict.served_payee) == (names[0], "0xhonest")
    assert (conflict.other, conflict.other_payee) == (names[1], "0xliar")
    summary = summarise_difference(difference)
    assert summary.startswith("! https://a.example/ pays 0xhonest by ")
    assert compare(after, after).conflicts == []


def test_numbers_that_are_written_differently_differ(tmp_path: Path) -> None:
    assert changed_keys(tmp_path, service("a", big=2**70), service("a", big=2**70 + 1)) == ["big"]


def test_another_order_of_keys_is_a_change_without_changed_keys(tmp_path: Path) -> None:
    record = service("a", x=1, y=2)
    turned = dict(reversed(record.items()))
    difference = compare(stored(tmp_path / "old", [record]), stored(tmp_path / "new", [turned]))
    assert [change.keys for change in difference.changed] == [[]]
    assert "~ a  One: order or spelling\n" in summarise_difference(difference)


def test_control_characters_of_a_name_are_escaped(tmp_path: Path) -> None:
    old = stored(tmp_path / "old", [])
    hostile = "\x1b[2Jname\n- other\u202e\u2028" + "x" * 9999
    new = stored(tmp_path / "new", [service("a", name=hostile), service("b", **{"\r": 1})])
    changed = stored(tmp_path / "changed", [service("a", name=hostile), service("b")])
    lines = summarise_difference(compare(old, new)).splitlines()
    assert lines[0].startswith("+ a  \\x1b[2Jname\\n- other\\u202e\\u2028xxx")
    assert lines[0].endswith("…")
    assert len(lines) == 3
    assert len(lines[0]) < 250
    assert "~ b  One: \\r\n" in summarise_difference(compare(changed, new))


def test_catalogues_without_services_have_no_difference(tmp_path: Path) -> None:
    old, new = stored(tmp_path / "old", []), stored(tmp_path / "new", [])
    summary = summarise_difference(compare(old, new))
    assert summary == "0 added, 0 changed, 0 removed"
    assert count_changes(old, new) == ChangeCounts(0, 0, 0)


CATALOGUES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 2)).flatmap(
    lambda catalogue: st.permutations(list(catalogue.items()))
)


@settings(deadline=None)
@given(CATALOGUES, CATALOGUES)
def test_every_service_is_reported_in_the_order_of_its_listing(
    tmp_path_factory: pytest.TempPathFactory, old: list[Any], new: list[Any]
) -> None:
    folder = tmp_path_factory.mktemp("pair")
    folders = [
        stored(folder / name, [service(key, version=version) for key, version in listing])
        for name, listing in (("old", old), ("new", new))
    ]
    difference = compare(*folders)
    counts = count_changes(*folders)
    before, after = dict(old), dict(new)
    added = [key for key in after if key not in before]
    removed = [key for key in before if key not in after]
    changed = [key for key in after if key in before and before[key] != after[key]]
    assert [service.id for service in difference.added] == added
    assert [service.id for service in difference.removed] == removed
    assert [service.id for service in difference.changed] == changed
    assert counts == ChangeCounts(len(added), len(changed), len(removed))


def test_a_snapshot_is_found_by_id_prefix_or_path(
    artifacts: Path, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert build([service("a")]) == 0
    first = published(artifacts)
    assert build([service("b")]) == 0
    second = published(artifacts)
    assert first != second
    start = next(n for n in range(1, 20) if not second.name.startswith(first.name[:n]))
    for name in (first.name, first.name[:start], str(first)):
        assert find_snapshot(artifacts, name) == first
    shutil.copytree(first, artifacts.parent / "saved")
    assert compare(find_snapshot(artifacts, str(artifacts.parent / "saved")), first).changed == []
    monkeypatch.chdir(second)
    assert find_snapshot(artifacts, ".") == second


def test_a_prefix_of_several_ids_is_ambiguous(artifacts: Path, build: Build) -> None:
    assert build([service("a")]) == 0
    folder = published(artifacts)
    shutil.copytree(folder, f"{folder}0")
    assert find_snapshot(artifacts, folder.name) == folder
    with pytest.raises(Misuse, match=f"which: {folder.name}, {folder.name}0"):
        find_snapshot(artifacts, folder.name[:-1])


def test_an_id_takes_precedence_over_a_folder_of_that_name(
    artifacts: Path, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert build([service("a")]) == 0
    first = published(artifacts)
    assert build([service("b")]) == 0
    shutil.copytree(published(artifacts), artifacts.parent / first.name)
    monkeypatch.chdir(artifacts.parent)
    assert find_snapshot(artifacts, first.name) == first


def test_the_error_for_an_unknown_snapshot_lists_the_existing_ones(
    artifacts: Path, build: Build
) -> None:
    with pytest.raises(SnapshotMissing, match=r"nope: no snapshot of .*, which holds none"):
        find_snapshot(artifacts, "nope")
    assert build([service("a")]) == 0
    with pytest.raises(SnapshotMissing, match=f"which holds {published(artifacts).name}"):
        find_snapshot(artifacts, str(artifacts / "nope"))


@pytest.mark.parametrize("name", sorted(COMPARED_FILES))
def test_a_damaged_snapshot_is_not_compared(name: str, artifacts: Path, build: Build) -> None:
    assert build([service("a")]) == 0
    folder = published(artifacts)
    assert compare_with_served(artifacts, folder) == (folder.name, ChangeCounts(0, 0, 0))
    content = (folder / name).read_bytes()
    for damaged, reason in ((content + b" ", r"has \d+ bytes, not"), (None, "No such file")):
        if damaged is None:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(damaged)
        with pytest.raises(SnapshotDamaged, match=rf"{name} .*{reason}"):
            find_snapshot(artifacts, folder.name)
        assert compare_with_served(artifacts, folder) == (folder.name, None)


def test_a_snapshot_of_another_version_is_not_compared(artifacts: Path, build: Build) -> None:
    assert build([service("a")]) == 0
    folder = published(artifacts)
    (folder / MANIFEST).write_text('{"format":0}')
    with pytest.raises(SnapshotUnsupported, match="has format 0"):
        find_snapshot(artifacts, folder.name)
