"""The id of a snapshot: the same id is the same bytes, whatever built it and when."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.build import build_snapshot
from indexer.catalogue_file import name_source
from indexer.intake import fingerprint
from indexer.options import BuildOptions, Kind, RankingOptions
from indexer.report import Report
from service.arrays.files import sha256
from service.errors import SnapshotDamaged
from service.snapshot.manifest import MANIFEST, File, identify, read_manifest, verify
from service.snapshot.publication import CURRENT
from tests.support.artifacts import current, folder
from tests.support.running import Json, endpoint, payment, service, write_lines

WORDS_ALONE = RankingOptions(is_semantic=False)


def publish(
    artifacts: Path, records: list[Json], payments: list[Json] | None = None, **options: Any
) -> Report:
    """Build records into an artifacts folder, in this process, where tests change the program."""
    source = artifacts.with_name("source.jsonl")
    write_lines(source, records)
    sources = [name_source(str(source))]
    if payments is not None:
        file = artifacts.with_name("payments.jsonl")
        write_lines(file, payments)
        sources.append(name_source(str(file), Kind.PAYMENTS))
    return build_snapshot(
        BuildOptions(
            sources=tuple(sources),
            out=artifacts,
            ranking=WORDS_ALONE,
            downloads=False,
            jobs=1,
            **options,
        )
    )


def upgrade(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the program be another release of itself, which ranks popularity otherwise."""
    monkeypatch.setattr(fingerprint, "hash_own_code", lambda: "another release")
    monkeypatch.setattr("indexer.index.popularity.SATURATING_PAYERS", 10)


def busy(service_id: str) -> Json:
    """Return a service whose endpoint was called some times."""
    use = {"l30DaysTotalCalls": "9", "l30DaysUniquePayers": "9"}
    return service(service_id, name=f"Name {service_id}", endpoints=[endpoint() | {"quality": use}])


def test_an_upgrade_builds_anew_and_gives_what_a_build_from_nothing_gives(
    artifacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [busy("a"), service("b")]
    before = publish(artifacts, records).snapshot
    upgrade(monkeypatch)
    upgraded = publish(artifacts, records)
    anew = publish(artifacts.with_name("anew"), records).snapshot
    assert upgraded.changed
    assert (current(artifacts), upgraded.snapshot == before) == (anew, False)


def test_an_upgrade_that_changes_no_byte_keeps_the_snapshot(
    artifacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = publish(artifacts, [service("a")])
    manifest = read_manifest(folder(artifacts))
    monkeypatch.setattr(fingerprint, "hash_own_code", lambda: "another release")
    second = publish(artifacts, [service("a")])
    assert (second.snapshot, second.changed, second.indexed) == (first.snapshot, False, 1)
    after = read_manifest(folder(artifacts))
    assert (after.built_at, after.files) == (manifest.built_at, manifest.files)
    assert after.inputs is not None
    assert after.inputs.program == "another release"
    assert publish(artifacts, [service("a")]).stages.keys() == {
        "compare with the last build",
        "write the Whoosh index",
    }


hashes = st.text("0123456789abcdef", min_size=64, max_size=64)
files = st.dictionaries(st.text("abc/", min_size=1), st.builds(File, st.just(1), hashes))


@given(files, files)
def test_snapshots_have_one_id_only_if_all_their_files_are_the_same(
    one: dict[str, File], other: dict[str, File]
) -> None:
    assert (identify(one) == identify(other)) == (one == other)
    assert identify(dict(reversed(one.items()))) == identify(one)
    for name in one:
        changed = one | {name: File(1, "0" * 63 + "g")}
        assert identify(changed) != identify(one)


def test_a_build_whose_clock_was_ahead_is_not_repeated(
    artifacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    paid = [payment(), payment(tx_hash="0x02", block_timestamp=tomorrow.isoformat())]

    clock = SimpleNamespace(now=lambda tz: datetime.now(tz) + timedelta(days=2))
    with monkeypatch.context() as patch:
        patch.setattr("indexer.build.datetime", clock)
        assert publish(artifacts, [service("a")], paid).payments == 2
    ahead = clock.now(UTC).timestamp()
    os.utime(artifacts / CURRENT, (ahead, ahead))
    assert publish(artifacts, [service("a")], paid, max_rejects=1.0).payments == 1


def test_a_snapshot_whose_manifest_names_other_files_than_its_id_is_damaged(
    artifacts: Path,
) -> None:
    publish(artifacts, [service("a")])
    manifest = read_manifest(folder(artifacts))
    (folder(artifacts) / "forged").write_bytes(b"forged")
    manifest.files["forged"] = File(6, sha256(folder(artifacts) / "forged"))
    (folder(artifacts) / MANIFEST).write_bytes(msgspec.json.encode(manifest))
    with pytest.raises(SnapshotDamaged, match="names other files than its id"):
        verify(folder(artifacts))
