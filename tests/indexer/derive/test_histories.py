"""Builds after other builds: the result is that of a build from nothing."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.__main__ import main
from indexer.build import build_snapshot
from indexer.catalogue_file import name_source
from indexer.derive.columns import open_columns
from indexer.derive.reuse import COLUMNS, DESCRIPTION, RESULTS, REUSE
from indexer.options import STATIC_RANKING, BuildOptions, RankingOptions
from indexer.report import Report
from service.snapshot.manifest import MANIFEST, verify
from service.snapshot.snapshot import open_snapshot
from tests.support.artifacts import current, flip_a_bit, folder, snapshots
from tests.support.running import Json, endpoint, examples, service

WORDS = ("weather", "forecast", "forecasts", "forecasting", "maps", "map", "seas", "GPTMaps")
texts = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
calls = st.sampled_from(("1", "20", "300"))
endpoints = st.builds(
    lambda path, description, calls: (
        endpoint()
        | {
            "url": f"https://api.example/{path.replace(' ', '/')}",
            "description": description,
            "quality": {"l30DaysTotalCalls": calls, "l30DaysUniquePayers": "1"},
        }
    ),
    texts,
    texts,
    calls,
)
services = st.builds(
    lambda name, description, endpoints, enriched: {
        "name": name or "none",
        "description": description,
        "category": name[:4],
        "endpoints": endpoints,
        "enriched": enriched,
    },
    texts,
    texts,
    st.lists(endpoints, max_size=3),
    st.booleans(),
)
ids = st.sampled_from("abcdefghijkl")
catalogues = st.dictionaries(ids, services, max_size=12)
changes = st.dictionaries(ids, st.none() | services | calls, min_size=1, max_size=4)


def change(catalogue: dict[str, Json], changed: dict[str, Any]) -> dict[str, Json]:
    """Return a catalogue with services added, replaced, removed, renamed or called otherwise."""
    after = dict(catalogue)
    for service_id, value in changed.items():
        record = after.pop(service_id, None)
        if isinstance(value, dict):
            after[service_id] = value
        elif isinstance(value, str) and record is not None:
            renamed = f"{service_id}{value}" if value == "20" else service_id
            use = {"l30DaysTotalCalls": value, "l30DaysUniquePayers": "1"}
            own = [each | {"quality": use} for each in record["endpoints"]]
            after[renamed] = record | {"endpoints": own}
    return after


def publish(
    folder: Path,
    catalogue: dict[str, Json],
    *,
    from_scratch: bool = False,
    words_only: bool = True,
    whole: bool = False,
) -> Report:
    """Build a catalogue, if `whole` with what lies beside a snapshot; return the report."""
    records = [{"id": service_id} | record for service_id, record in catalogue.items()]
    source = folder / "source.jsonl"
    source.write_text("".join(json.dumps(each) + "\n" for each in records) or "[]")
    options = BuildOptions(
        sources=(name_source(str(source)),),
        out=folder / "artifacts",
        ranking=RankingOptions(is_semantic=False) if words_only else STATIC_RANKING,
        from_scratch=from_scratch,
        downloads=whole,
        whoosh=whole,
    )
    return build_snapshot(options)


def served_files(artifacts: Path) -> dict[str, bytes]:
    """Return the files of the published snapshot, but for the manifest."""
    root = folder(artifacts)
    files = (path for path in root.rglob("*") if path.is_file())
    names = {path.relative_to(root).as_posix(): path for path in files}
    return {name: path.read_bytes() for name, path in names.items() if name != MANIFEST}


def named(*names: str) -> dict[str, Json]:
    """Return a catalogue of services with these names, whose ids are their positions."""
    records = (service(None, name=name) for name in names)
    return {f"s{number:02}": record for number, record in enumerate(records)}


@pytest.mark.parametrize("part", [2000, 2], ids=["default", "many parts"])
def test_a_build_after_others_has_the_bytes_of_a_build_from_nothing(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.derive.deriving.PART", part)

    @settings(max_examples=examples(40), deadline=None)
    @given(st.booleans(), catalogues, st.lists(changes, min_size=1, max_size=4))
    def check(
        words_only: bool, catalogue: dict[str, Json], history: Sequence[dict[str, Any]]
    ) -> None:
        with tempfile.TemporaryDirectory() as name:
            path, artifacts = Path(name), Path(name) / "artifacts"
            publish(path, catalogue, words_only=words_only)
            for changed in history:
                catalogue = change(catalogue, changed)
                publish(path, catalogue, words_only=words_only)
                assert len(open_columns(artifacts / REUSE / COLUMNS).keys) == len(catalogue)
            for snapshot in snapshots(artifacts):
                verify(artifacts / "snapshots" / snapshot)
            before, reused = current(artifacts), served_files(artifacts)
            publish(path, catalogue, from_scratch=True, words_only=words_only)
            assert current(artifacts) == before
            assert served_files(artifacts) == reused

    check()


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the artifacts of a catalogue of WORDS."""
    path = tmp_path_factory.mktemp("published")
    publish(path, named(*WORDS))
    return path


@pytest.fixture
def words(published: Path, tmp_path: Path) -> Path:
    """A copy of `published`, to build into."""
    return shutil.copytree(published, tmp_path / "words")


def test_only_new_records_are_indexed(tmp_path: Path) -> None:
    catalogue = named(*WORDS)
    assert publish(tmp_path, catalogue).indexed == len(WORDS)
    catalogue["s06"]["name"] = "oceans"
    assert publish(tmp_path, catalogue).indexed == 1
    del catalogue["s00"], catalogue["s01"]
    fewer = publish(tmp_path, catalogue)
    assert (fewer.changed, fewer.indexed) == (True, 0)


def test_a_word_vanishes_with_the_last_service_that_is_written_so(tmp_path: Path) -> None:
    catalogue = named("forecast", "forecasting", "other", "more", "others", "many")
    publish(tmp_path, catalogue)
    words = tmp_path / "artifacts"
    assert b"forecasting" in (folder(words) / "index.arrays").read_bytes()
    del catalogue["s01"]
    publish(tmp_path, catalogue)
    assert b"forecasting" not in (folder(words) / "index.arrays").read_bytes()
    assert open_snapshot(words).search("forecasting").ids == ["s00"]


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a bit": flip_a_bit,
    "a missing end": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "nothing left": Path.unlink,
}


@pytest.fixture(scope="module")
def renamed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a build of WORDS with another first name, from nothing."""
    path = tmp_path_factory.mktemp("renamed")
    publish(path, named("oceans", *WORDS[1:]), from_scratch=True)
    return served_files(path / "artifacts")


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    ("name", "indexed"), [(COLUMNS, len(WORDS)), (RESULTS, 1), (DESCRIPTION, len(WORDS))]
)
def test_damaged_leftovers_are_derived_again(
    damage: str, name: str, indexed: int, words: Path, renamed: dict[str, bytes]
) -> None:
    artifacts = words / "artifacts"
    DAMAGES[damage](artifacts / REUSE / name)
    assert main(["verify", str(artifacts)]) == 0
    assert publish(words, named("oceans", *WORDS[1:])).indexed == indexed
    assert served_files(artifacts) == renamed


def test_what_another_program_or_encoder_left_is_derived_again(
    words: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert publish(words, named(*WORDS, "oceans"), words_only=False).indexed == len(WORDS) + 1
    monkeypatch.setattr("indexer.derive.reuse.hash_program", lambda: "another")
    assert publish(words, named(*WORDS, "seas")).indexed == len(WORDS) + 1


def test_the_last_build_is_reused_after_a_rollback(words: Path) -> None:
    publish(words, named(*WORDS, "oceans"))
    assert main(["rollback", str(words / "artifacts")]) == 0
    assert publish(words, named(*WORDS, "oceans", "rivers")).indexed == 1
    left = {path.name for path in (words / "artifacts" / REUSE).iterdir()}
    assert left == {COLUMNS, RESULTS, DESCRIPTION}


def test_builders_of_a_folder_and_of_its_copy_make_the_same_bytes(
    words: Path, tmp_path: Path
) -> None:
    other = shutil.copytree(words, tmp_path / "other")
    for name in ("Rain", "Snow"):
        reports = [publish(each, named(*WORDS, name)) for each in (words, other)]
        assert [report.indexed for report in reports] == [1, 1]
    assert served_files(words / "artifacts") == served_files(other / "artifacts")
    assert snapshots(words / "artifacts") == snapshots(other / "artifacts")


PRUNED = ("snapshots", REUSE, "whoosh", "downloads", "earlier snapshot")


def test_builders_take_turns_on_a_folder_that_somebody_prunes(tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.mkdir()
    catalogues = [named(*WORDS, "oceans", *["rivers"] * number) for number in range(4)]
    publish(first, catalogues[0], whole=True)
    publish(first, catalogues[1], words_only=False, whole=True)
    shutil.copytree(first, tmp_path / "expected")
    publish(tmp_path / "expected", catalogues[3], from_scratch=True)
    expected = tmp_path / "expected" / "artifacts"
    for name in PRUNED:
        artifacts = shutil.copytree(first, tmp_path / "pruned") / "artifacts"
        (earlier,) = snapshots(artifacts) - {current(artifacts)}
        pruned = f"snapshots/{earlier}" if name == "earlier snapshot" else name
        shutil.rmtree(artifacts / pruned)
        publish(artifacts.parent, catalogues[2], words_only=False, whole=True)
        publish(artifacts.parent, catalogues[3], whole=True)
        assert main(["verify", str(artifacts)]) == 0, name
        assert current(artifacts) == current(expected), name
        assert served_files(artifacts) == served_files(expected), name
        shutil.rmtree(artifacts.parent)


def test_a_build_that_can_leave_nothing_is_published(tmp_path: Path) -> None:
    artifacts = tmp_path / "artifacts"
    artifacts.mkdir()
    (artifacts / REUSE).write_text("no folder")
    report = publish(tmp_path, named(*WORDS))
    assert any("the next build can reuse nothing of this one" in note for note in report.notes)
    assert open_snapshot(artifacts).search("weather").total == 1
    assert publish(tmp_path, named(*WORDS, "oceans")).indexed == len(WORDS) + 1


def test_the_service_does_not_need_the_leftovers(words: Path) -> None:
    artifacts = words / "artifacts"
    shutil.rmtree(artifacts / REUSE)
    assert open_snapshot(artifacts).search("weather").total == 1
    assert main(["verify", str(artifacts)]) == 0


def test_a_build_from_scratch_replaces_what_is_kept(words: Path) -> None:
    publish(words, named(*WORDS, "oceans"))
    report = publish(words, named(*WORDS, "oceans"), from_scratch=True)
    assert (report.changed, report.indexed) == (False, len(WORDS) + 1)


def test_a_full_disk_is_reported_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(tmp_path, named(*WORDS))
    before = served_files(tmp_path / "artifacts")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("indexer.derive.columns.writing_arrays", fail)
    with pytest.raises(OSError, match="No space left"):
        publish(tmp_path, named(*WORDS, "oceans"))
    assert served_files(tmp_path / "artifacts") == before
