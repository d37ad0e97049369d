"""The Whoosh index: kept up to date, unpickled only as it was written, and its query language."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from whoosh.filedb.filestore import FileStorage

from indexer import whoosh_index
from indexer.cli.query import parse_query
from indexer.errors import IndexerError, Misuse
from indexer.whoosh_index import (
    FIELDS,
    SCHEMA,
    STATE,
    TermAnalyzer,
    open_whoosh_index,
    update_whoosh_index,
)
from service.artifacts.publishing import WHOOSH, stage
from service.search.analysis import term_of, words_of
from tests.support.artifacts import flip_a_bit
from tests.support.running import examples, run_fork
from tests.support.searching import IDENTIFIERS, WORDS
from tests.support.whoosh_index import Catalogue, ids_of, matches, write_index, write_snapshot

VOCABULARY = [*WORDS[:7], *IDENTIFIERS[:2], "the", "é", "天気"]
texts = st.lists(st.sampled_from(VOCABULARY), max_size=5).map(" ".join)
catalogues = st.dictionaries(st.sampled_from("abcdefgh"), st.tuples(texts, texts, texts))
SERVICES = {f"s{n}": (WORDS[n], f"about {WORDS[n + 1]}", "data") for n in range(10)}
CHANGED = SERVICES | {"s3": ("renamed", "", ""), "new": ("one more", "", "")}
ASKED = {
    "tides": ("Tidewatch", "Premium tides of all harbours", "Data"),
    "rain": ("Rain of YouTube", "The forecasts, premium", "Weather data"),
    "cafe-4": ("Café", "Menus", "food"),
}


def segments(artifacts: Path) -> set[str]:
    """Return the names of the files that hold segments."""
    return {path.name for path in (artifacts / WHOOSH).glob("*.seg")}


def brute_force(services: Catalogue, field: str, text: str) -> set[str]:
    """Return the services that have all terms of a text in a field."""
    terms = {term_of(word.text) for word in words_of(text) if not word.redundant}
    position = FIELDS.index(field)
    return {
        service_id
        for service_id, contents in services.items()
        if terms <= {term_of(word.text) for word in words_of(contents[position])}
    }


def check_answers(artifacts: Path, snapshot_id: str, services: Catalogue) -> None:
    with open_whoosh_index(artifacts, snapshot_id).searcher() as searcher:
        for field in FIELDS:
            for text in VOCABULARY:
                expected = brute_force(services, field, text)
                assert matches(searcher, f"{field}:{text}") == expected
        assert matches(searcher, "*:*") == set(services)


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(catalogues, min_size=1, max_size=8))
def test_every_update_answers_as_the_texts_do(history: Sequence[Catalogue]) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        artifacts = Path(temporary)
        for number, services in enumerate(history):
            write_index(artifacts, str(number), services)
        check_answers(artifacts, str(number), services)


def test_an_update_writes_the_changed_texts_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_index(tmp_path, "one", SERVICES)
    before, analysed = segments(tmp_path), []

    def analyse(text: str) -> list[object]:
        analysed.append(text)
        return list(words_of(text))

    monkeypatch.setattr("indexer.whoosh_index.words_of", analyse)
    changed = dict(CHANGED)
    del changed["s0"]
    write_index(tmp_path, "two", changed)
    assert {*analysed} == {"renamed", "one more", ""}
    assert before < segments(tmp_path)
    monkeypatch.undo()
    assert ids_of(tmp_path, "two", "renamed OR more") == {"s3", "new"}
    check_answers(tmp_path, "two", changed)


def test_an_index_of_its_snapshot_stays(tmp_path: Path) -> None:
    write_index(tmp_path, "one", SERVICES)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / WHOOSH).iterdir()}
    write_index(tmp_path, "one", SERVICES)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / WHOOSH).iterdir()} == before


def test_an_index_of_many_updates_stays_small(tmp_path: Path) -> None:
    services = dict(SERVICES)
    for number in range(40):
        services["s1"] = (f"number {number}", "", "")
        write_index(tmp_path, str(number), services)
    check_answers(tmp_path, "39", services)
    whoosh = open_whoosh_index(tmp_path, "39")
    assert whoosh.doc_count() == 10
    assert whoosh.doc_count_all() <= 21
    assert len(segments(tmp_path)) < 20


def test_an_index_that_is_behind_is_not_answered_from(tmp_path: Path) -> None:
    write_index(tmp_path, "one", SERVICES)
    with pytest.raises(IndexerError, match="is behind: it has the snapshot one; a build brings"):
        open_whoosh_index(tmp_path, "two")
    write_index(tmp_path, "two", CHANGED)
    check_answers(tmp_path, "two", CHANGED)
    write_index(tmp_path, "one", SERVICES)  # as a rollback does
    check_answers(tmp_path, "one", SERVICES)


def test_an_empty_catalogue_has_an_index(tmp_path: Path) -> None:
    write_index(tmp_path, "none", {})
    assert ids_of(tmp_path, "none", "*:*") == set()
    write_index(tmp_path, "one", SERVICES)
    write_index(tmp_path, "none", {})
    assert ids_of(tmp_path, "none", "*:*") == set()


def test_indexes_of_an_earlier_release_are_removed(tmp_path: Path) -> None:
    earlier = tmp_path / WHOOSH / ("1" * 20)
    earlier.mkdir(parents=True)
    (earlier / "_MAIN_1.toc").write_bytes(pickle.dumps("earlier"))
    write_index(tmp_path, "one", SERVICES)
    assert not earlier.exists()
    check_answers(tmp_path, "one", SERVICES)


@pytest.mark.parametrize("is_link", [False, True])
def test_what_is_no_folder_gives_way_to_the_index(tmp_path: Path, *, is_link: bool) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").touch()
    if is_link:
        (tmp_path / WHOOSH).symlink_to(elsewhere)
    else:
        (tmp_path / WHOOSH).touch()
    write_index(tmp_path, "one", SERVICES)
    check_answers(tmp_path, "one", SERVICES)
    assert (elsewhere / "file").exists()


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an index from which nothing may be unpickled."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("unpickled")

    write_index(tmp_path, "one", SERVICES)
    monkeypatch.setattr("pickle.loads", refuse)
    monkeypatch.setattr("pickle.load", refuse)
    monkeypatch.setattr("whoosh.index.open_dir", refuse)
    return tmp_path / WHOOSH


def refuses(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that the index is not opened, and is written anew by the next build."""
    with pytest.raises(
        IndexerError, match="has no whole Whoosh index of this release; a build brings it up"
    ):
        open_whoosh_index(written.parent, "one")
    write_index(written.parent, "two", CHANGED)
    monkeypatch.undo()
    assert len(segments(written.parent)) == 1
    check_answers(written.parent, "two", CHANGED)


@pytest.mark.parametrize("name", ["*.toc", "*.seg", STATE])
@pytest.mark.parametrize("damage", ["flipped", "missing", "cut"])
def test_a_damaged_file_is_not_unpickled(
    written: Path, name: str, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = written.glob(name)
    if damage == "flipped":
        flip_a_bit(path)
    elif damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1])
    refuses(written, monkeypatch)


@pytest.mark.parametrize("name", ["_MAIN_9.toc", "MAIN_9.seg", "notes.txt"])
def test_a_folder_with_a_foreign_file_is_not_unpickled(
    written: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (written / name).write_bytes(pickle.dumps("another"))
    refuses(written, monkeypatch)


def test_an_index_of_another_program_is_not_unpickled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(whoosh_index, "hash_program", lambda: "another")
        write_index(tmp_path, "one", SERVICES)
    refuses(tmp_path / WHOOSH, monkeypatch)


def test_a_missing_index_is_reported(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(written)
    refuses(written, monkeypatch)


@pytest.mark.parametrize("before", [True, False])
def test_a_full_disk_is_a_note_and_the_next_build_writes_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, before: bool
) -> None:
    if before:
        write_index(tmp_path, "one", SERVICES)
    write_snapshot(tmp_path, "two", CHANGED)

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("whoosh.filedb.filestore.FileStorage.rename_file", fail)
        (note,) = update_whoosh_index(tmp_path, "two")
    assert "whoosh: the Whoosh index is not written: [Errno 28] No space left on device" in note
    with pytest.raises(IndexerError, match="is behind" if before else "no whole Whoosh index"):
        open_whoosh_index(tmp_path, "two")
    write_index(tmp_path, "two", CHANGED)
    check_answers(tmp_path, "two", CHANGED)


def update_and_die(arguments: list[str]) -> int:
    """Update the index in a process that kills itself at a moment."""
    moment, artifacts, snapshot = arguments
    rename = Path.rename

    def kill(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def rename_and_die(source: Path, target: Path) -> None:
        rename(source, target)
        kill()

    if moment == "begun":
        FileStorage.rename_file = kill
    else:
        Path.rename = kill if moment == "drafted" else rename_and_die  # type: ignore[assignment, method-assign]
    with stage(Path(artifacts), keep=None):
        update_whoosh_index(Path(artifacts), snapshot)
    return 0


@pytest.mark.parametrize(
    ("moment", "left"),
    [
        ("begun", "is behind: it has the snapshot one"),
        ("drafted", "is behind: it has the snapshot one"),
        ("moved", "has no whole Whoosh index"),
    ],
)
def test_a_build_that_is_killed_leaves_the_earlier_index_or_none(
    tmp_path: Path, moment: str, left: str
) -> None:
    write_index(tmp_path, "one", SERVICES)
    write_snapshot(tmp_path, "two", CHANGED)
    assert run_fork(update_and_die, moment, tmp_path, "two").returncode == -signal.SIGKILL
    with pytest.raises(IndexerError, match=left):
        open_whoosh_index(tmp_path, "two")
    write_index(tmp_path, "two", CHANGED)
    check_answers(tmp_path, "two", CHANGED)


def test_terms_weigh_by_how_often_and_in_how_long_a_text_they_stand(tmp_path: Path) -> None:
    services = {
        "once": ("", "rain in the north and the south and east", ""),
        "often": ("", "rain and rain and more rain in the north", ""),
        "short": ("", "rain", ""),
        **{f"other{n}": ("", "sun", "") for n in range(9)},
    }
    write_index(tmp_path, "one", services)
    with open_whoosh_index(tmp_path, "one").searcher() as searcher:
        reader = searcher.reader()
        assert reader.frequency("description", "rain") == 5
        lengths = {
            reader.stored_fields(number)["id"]: reader.doc_field_length(number, "description")
            for number in reader.all_doc_ids()
        }
    assert (lengths["once"], lengths["often"], lengths["short"]) == (9, 9, 1)


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("artifacts")
    write_index(folder, "one", ASKED)
    return folder


@settings(max_examples=examples(100), deadline=None)
@given(st.text(max_size=40))
def test_a_query_has_the_terms_that_its_text_is_indexed_by(text: str) -> None:
    terms = Counter(term_of(word.text).encode() for word in words_of(text))
    indexed = {term: count for term, count, _, _ in SCHEMA["name"].index(text)}
    assert indexed == terms
    queried = {token.text.encode() for token in TermAnalyzer()(text, "query")}
    assert queried <= indexed.keys()
    assert bool(queried) == bool(indexed)


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("premium", "tides rain"),
        ("PREMIUM harbour", "tides"),
        ("tides OR menu", "tides cafe-4"),
        ("description:premium AND category:data", "tides rain"),
        ("description:premium AND NOT category:weather", "tides"),
        ("category:(food OR weather)", "rain cafe-4"),
        ("name:premium", ""),
        ("'forecasts the'", "rain"),
        ("cafe", "cafe-4"),
        ("CAF*", "cafe-4"),
        ("Ca?é", "cafe-4"),
        ("youtube", "rain"),
        ("YouTube", "rain"),
        ("you tube", "rain"),
        ("harb*", "tides"),
        ("name:t*w*", "tides"),
        ("id:ti*", "tides"),
        ("id:tides OR id:cafe-4", "tides cafe-4"),
        ("NOT premium", "cafe-4"),
        ("*:*", "tides rain cafe-4"),
        ("premium^2 tides", "tides"),
        ("name:[r TO z]", "tides rain"),
        ("nothing", ""),
        ("", ""),
        ("-- !", ""),
    ],
)
def test_words_fields_booleans_and_wildcards_select_services(
    artifacts: Path, query: str, ids: str
) -> None:
    assert ids_of(artifacts, "one", query) == set(ids.split())


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ('"all harbours"', "no phrases; write the words without double quotes"),
        ('rain AND (sun OR name:"all harbours")', "no phrases"),
        ('"rain', "no phrases"),
        ("title:rain", "no field 'title'; id, name, description, category are"),
        ("rain AND (sun OR https://x.example)", "no field 'https'"),
        ("title:*", "no field 'title'"),
        ("hash:a", "'hash:a' is no query"),
        ("(rain", "a parenthesis is missing"),
        ("rain)", "a parenthesis is missing"),
        ("AND rain", "a word beside AND"),
        ("(OR rain)", "a word beside AND, OR"),
        ("rain AND", "a word beside AND"),
        ("(rain NOT) sun", "a word beside AND, OR, NOT"),
        ("name: rain", "a word beside AND, OR, NOT or a field"),
        ("rain name:", "or a field"),
        ("(" * 5000 + "rain" + ")" * 5000, "recursion"),
    ],
)
def test_a_query_that_cannot_be_answered_is_refused(query: str, message: str) -> None:
    with pytest.raises(Misuse) as error:
        parse_query(query)
    assert message in str(error.value)


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [*'()[]{}"*?^~:\\+-<>&| ', "AND", "OR", "NOT", "TO", "name:", "a", "é", "'"]
        ),
        max_size=12,
    ).map("".join)
)
def test_any_text_is_a_query_or_refused(artifacts: Path, text: str) -> None:
    with suppress(Misuse):
        assert ids_of(artifacts, "one", text) <= set(ASKED)
