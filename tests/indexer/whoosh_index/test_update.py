"""The Whoosh index of a snapshot, written anew or from that of an earlier one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.errors import IndexerError
from indexer.processes.pool import Pool
from indexer.whoosh_index import update
from indexer.whoosh_index.files import check_index, open_whoosh_index
from indexer.whoosh_index.schema import FIELDS
from indexer.whoosh_index.update import KEYS, publish_whoosh_index, start_whoosh_index
from service.artifacts.publishing import WHOOSH, stage
from service.search.analysis import term_of, words_of
from tests.support.artifacts import flip_a_bit
from tests.support.running import SOAK, examples
from tests.support.searching import IDENTIFIERS, WORDS
from tests.support.whoosh_index import Catalogue, ids_of, write_index

VOCABULARY = [*WORDS[:7], *IDENTIFIERS[:2], "the", "é", "天気"]
texts = st.lists(st.sampled_from(VOCABULARY), max_size=5).map(" ".join)
catalogues = st.dictionaries(st.sampled_from("abcdefgh"), st.tuples(texts, texts, texts))
SERVICES = {f"s{n}": (WORDS[n], f"about {WORDS[n + 1]}", "data") for n in range(10)}


def files(artifacts: Path, snapshot_id: str) -> dict[str, int]:
    """Return the numbers of the files that hold segments."""
    paths = (artifacts / WHOOSH / snapshot_id).glob("*.seg")
    return {path.name: path.stat().st_ino for path in paths}


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
    for field in FIELDS:
        for text in VOCABULARY:
            expected = brute_force(services, field, text)
            assert ids_of(artifacts, snapshot_id, f"{field}:{text}") == expected
    assert ids_of(artifacts, snapshot_id, "*:*") == set(services)


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(catalogues, min_size=1, max_size=4), st.integers(1, 2) if SOAK else st.just(1))
def test_every_update_answers_as_the_texts_do(history: Sequence[Catalogue], segments: int) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        artifacts, before = Path(temporary), ""
        for number, services in enumerate(history):
            snapshot_id = f"{number:020x}"
            write_index(artifacts, snapshot_id, services, before, segments)
            before = snapshot_id
        check_answers(artifacts, snapshot_id, services)


def test_an_update_keeps_the_files_of_the_index_before_and_adds_a_segment(tmp_path: Path) -> None:
    write_index(tmp_path, "one", SERVICES)
    changed = SERVICES | {"s3": ("renamed", "", ""), "new": ("one more", "", "")}
    del changed["s0"]
    write_index(tmp_path, "two", changed, "one")
    one, two = files(tmp_path, "one"), files(tmp_path, "two")
    assert len(one) == 1
    assert len(two) == 2
    assert one.items() <= two.items()
    assert ids_of(tmp_path, "two", "renamed OR more") == {"s3", "new"}
    check_answers(tmp_path, "two", changed)
    check_answers(tmp_path, "one", SERVICES)  # which shares its file


def test_a_first_index_is_written_in_parts_and_an_update_in_one(tmp_path: Path) -> None:
    write_index(tmp_path, "one", SERVICES, segments=2)
    assert len(files(tmp_path, "one")) == 2
    check_answers(tmp_path, "one", SERVICES)
    changed = dict(list(SERVICES.items())[2:]) | {f"n{n}": ("new", "", "") for n in range(2)}
    write_index(tmp_path, "two", changed, "one", segments=2)  # each with a new service
    assert len(files(tmp_path, "two")) == 3
    check_answers(tmp_path, "two", changed)


def test_an_update_without_changes_adds_no_segment(tmp_path: Path) -> None:
    write_index(tmp_path, "one", SERVICES)
    write_index(tmp_path, "two", SERVICES, "one")
    assert files(tmp_path, "one") == files(tmp_path, "two")
    check_answers(tmp_path, "two", SERVICES)


def test_an_index_of_too_many_segments_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update, "MOST_SEGMENTS", 3)
    services, counts = dict(SERVICES), []
    for number in range(6):
        services[f"n{number}"] = (f"number {number}", "", "")
        write_index(tmp_path, str(number), services, str(number - 1))
        counts.append(len(files(tmp_path, str(number))))
        check_answers(tmp_path, str(number), services)
    assert counts == [1, 2, 3, 1, 2, 3]


@pytest.mark.parametrize(("gone", "segments"), [(5, 2), (6, 1)])
def test_an_index_is_written_anew_when_more_than_half_of_it_is_gone(
    tmp_path: Path, gone: int, segments: int
) -> None:
    write_index(tmp_path, "one", SERVICES)
    left = dict(list(SERVICES.items())[gone:]) | {"new": ("new", "", "")}
    write_index(tmp_path, "two", left, "one")
    assert len(files(tmp_path, "two")) == segments
    check_answers(tmp_path, "two", left)


def test_documents_that_went_before_count_as_gone(tmp_path: Path) -> None:
    services, before = dict(SERVICES), ""
    for number in range(7):
        write_index(tmp_path, str(number), services, before)
        before = str(number)
        services.pop(f"s{number}")
    assert files(tmp_path, "5") == files(tmp_path, "0")
    assert not files(tmp_path, "6").items() & files(tmp_path, "0").items()


@pytest.mark.parametrize("name", ["*.seg", "*.toc", KEYS, "files.json"])
def test_a_damaged_index_before_is_not_built_on(tmp_path: Path, name: str) -> None:
    write_index(tmp_path, "one", SERVICES)
    (path,) = (tmp_path / WHOOSH / "one").glob(name)
    flip_a_bit(path)
    changed = SERVICES | {"new": ("new", "", "")}
    write_index(tmp_path, "two", changed, "one")
    assert len(files(tmp_path, "two")) == 1
    check_answers(tmp_path, "two", changed)


def test_an_index_of_another_program_is_not_built_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("indexer.whoosh_index.files.hash_program", lambda: "another")
        write_index(tmp_path, "one", SERVICES)
    write_index(tmp_path, "two", SERVICES, "one")
    assert files(tmp_path, "one").keys() != files(tmp_path, "two").keys()
    check_answers(tmp_path, "two", SERVICES)


def test_an_index_that_is_whole_stays_and_a_damaged_one_is_replaced(tmp_path: Path) -> None:
    write_index(tmp_path, "one", SERVICES)
    written = files(tmp_path, "one")
    write_index(tmp_path, "one", SERVICES)
    assert files(tmp_path, "one") == written
    (path,) = (tmp_path / WHOOSH / "one").glob("*.seg")
    flip_a_bit(path)
    write_index(tmp_path, "one", SERVICES)
    check_answers(tmp_path, "one", SERVICES)


def test_files_are_copied_where_the_file_system_has_no_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    write_index(tmp_path, "one", SERVICES)
    monkeypatch.setattr("os.link", refuse)
    write_index(tmp_path, "two", SERVICES | {"new": ("new", "", "")}, "one")
    one, two = files(tmp_path, "one"), files(tmp_path, "two")
    assert one.keys() < two.keys()
    assert not set(one.values()) & set(two.values())


def test_postings_beyond_the_memory_are_spilled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update, "POSTINGS_MEMORY", 0)
    write_index(tmp_path, "one", SERVICES, segments=2)
    check_answers(tmp_path, "one", SERVICES)
    assert {path.suffix for path in (tmp_path / WHOOSH / "one").iterdir()} == {
        ".seg",
        ".toc",
        ".npy",
        ".json",
    }


@pytest.mark.parametrize("segments", [0, 1])
def test_a_catalogue_without_services_has_an_index(segments: int, tmp_path: Path) -> None:
    write_index(tmp_path, "one", {}, segments=segments)
    assert ids_of(tmp_path, "one", "*:*") == set()
    write_index(tmp_path, "two", SERVICES, "one")
    check_answers(tmp_path, "two", SERVICES)


def test_an_index_that_cannot_be_written_is_reported_and_nothing_is_left(tmp_path: Path) -> None:
    write_index(tmp_path, "one", SERVICES)
    with stage(tmp_path, keep=None):
        missing = [(tmp_path / "missing", np.zeros(1, np.int32))]
        parts = start_whoosh_index(Pool(1, 0), tmp_path, "one", tmp_path / "two", missing)
        with pytest.raises(IndexerError, match=r"two: .* is not written: .*No such file"):
            publish_whoosh_index(tmp_path, "two", parts)
    assert {path.name for path in (tmp_path / WHOOSH).iterdir()} == {"one"}
    assert not (tmp_path / "staging").exists()
    check_answers(tmp_path, "one", SERVICES)


def test_an_index_goes_with_its_snapshot(tmp_path: Path) -> None:
    one, two = "1" * 20, "2" * 20
    for snapshot_id in (one, two):
        write_index(tmp_path, snapshot_id, SERVICES)
    (tmp_path / "CURRENT").write_text(f"{two}\n")
    shutil.rmtree(tmp_path / "snapshots" / one)
    with stage(tmp_path):
        pass
    assert {path.name for path in (tmp_path / WHOOSH).iterdir()} == {two}


def test_terms_weigh_by_how_often_and_in_how_long_a_text_they_stand(tmp_path: Path) -> None:
    services = {
        "once": ("", "rain in the north and the south and east", ""),
        "often": ("", "rain and rain and more rain in the north", ""),
        "short": ("", "rain", ""),
        **{f"other{n}": ("", "sun", "") for n in range(9)},
    }
    write_index(tmp_path, "one", services)
    check_index(tmp_path / WHOOSH / "one")
    with open_whoosh_index(tmp_path, "one").searcher() as searcher:
        reader = searcher.reader()
        assert reader.frequency("description", "rain") == 5
        lengths = {
            reader.stored_fields(number)["id"]: reader.doc_field_length(number, "description")
            for number in reader.all_doc_ids()
        }
    assert (lengths["once"], lengths["often"], lengths["short"]) == (9, 9, 1)
