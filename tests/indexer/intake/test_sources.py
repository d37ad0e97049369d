"""Inputs of a build: the files of its sources, and the feeds that are fetched."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from indexer.catalogue_file import name_source
from indexer.errors import Misuse, SourceError
from indexer.intake.kept import AcceptedListings, KeptSource
from indexer.intake.sources import Inputs, fetch_feeds, find_inputs
from indexer.options import BuildOptions, Kind, OnError, SourceOptions
from indexer.progress import Progress
from tests.support.running import service, write_lines
from tests.support.sources.feeds import QUICK, failing, misbehaving, pages_of, sending
from tests.support.sources.x402 import resource


def options_of(folder: Path, *sources: SourceOptions) -> BuildOptions:
    return BuildOptions(sources=sources, out=folder / "out", limits=QUICK)


def fetch(folder: Path, *sources: SourceOptions) -> Inputs:
    options = options_of(folder, *sources)
    return fetch_feeds(find_inputs(options), options, Progress(quiet=True))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.jsonl", "a.json.gz", "c.ndjson", "notes.txt", "[d].json"):
        (tmp_path / name).touch()
    return tmp_path


def test_a_folder_is_resolved_to_its_json_files_by_name(folder: Path) -> None:
    overlays = name_source(str(folder), Kind.OVERLAY)
    inputs = find_inputs(options_of(folder, name_source(str(folder)), overlays))
    names = ["[d].json", "a.json.gz", "b.jsonl", "c.ndjson"]
    assert [source.path for source in inputs.sources] == [str(folder / name) for name in names]
    assert [each.path for each in inputs.overlays] == [str(folder / name) for name in names]


def test_each_file_of_a_folder_is_a_source_with_the_options_of_the_folder(folder: Path) -> None:
    source = SourceOptions(name="own", path=str(folder), trust=7)
    for each in find_inputs(options_of(folder, source)).sources:
        assert (each.name, each.options.trust) == (each.path, 7)


def test_patterns_match_each_file_once_and_existing_files_are_not_patterns(
    folder: Path,
) -> None:
    names = ("*.jsonl", "[bc].*", "[d].json")
    payments = (name_source(str(folder / name), Kind.PAYMENTS) for name in names)
    inputs = find_inputs(options_of(folder, *payments))
    matches = [str(folder / name) for name in ("b.jsonl", "c.ndjson", "[d].json")]
    assert [each.path for each in inputs.payments] == matches


def test_a_pattern_that_matches_nothing_is_an_error(folder: Path) -> None:
    source = name_source(str(folder / "*.csv"), Kind.PAYMENTS)
    with pytest.raises(SourceError, match=r"\*\.csv: there is no such file, and none matches it"):
        find_inputs(options_of(folder, source))


def test_a_missing_file_is_an_error_before_any_feed_is_fetched(tmp_path: Path) -> None:
    missing = name_source(str(tmp_path / "gone.jsonl"))
    with misbehaving(pages_of([])) as server:
        with pytest.raises(SourceError, match=r"gone\.jsonl: there is no such file"):
            fetch(tmp_path, name_source(server.url), missing)
        assert server.requests == []


def test_a_missing_file_of_a_source_that_may_fail_is_an_input(tmp_path: Path) -> None:
    source = replace(name_source(str(tmp_path / "gone.jsonl")), on_error=OnError.LAST)
    (found,) = find_inputs(options_of(tmp_path, source)).sources
    assert (found.file, found.size) == (None, None)


def test_the_copy_of_a_source_that_is_lost_counts_among_the_bytes_to_read(tmp_path: Path) -> None:
    own, lost = (tmp_path / name for name in ("own.jsonl", "lost.jsonl"))
    own.write_bytes(b" " * 100)
    source = replace(name_source(str(lost)), on_error=OnError.LAST)
    options = options_of(tmp_path, name_source(str(own)), source)
    assert find_inputs(options).is_below(101, options.out)
    lost.write_bytes(b" " * 50)
    KeptSource(options.out, source).store(lost, AcceptedListings(), datetime.now(UTC), 0)
    lost.unlink()
    assert not find_inputs(options).is_below(150, options.out)
    assert find_inputs(options).is_below(151, options.out)


def test_urls_that_differ_in_their_query_have_names_of_their_own(tmp_path: Path) -> None:
    urls = [f"https://feed.example/?page={number}" for number in range(3)]
    inputs = find_inputs(options_of(tmp_path, *map(name_source, urls)))
    name = "https://feed.example/"
    assert [each.name for each in inputs.sources] == [name, f"{name} (2)", f"{name} (3)"]
    assert [each.options.url for each in inputs.sources] == urls


def test_feeds_have_the_file_and_the_time_of_their_walk(tmp_path: Path) -> None:
    own = write_lines(tmp_path / "own.jsonl", [service()])
    before = datetime.now(UTC)
    with misbehaving(pages_of([resource("https://a.example/")])) as server:
        feed, file = fetch(tmp_path, name_source(server.url), name_source(own)).sources
    assert "https://a.example/" in Path(feed.path).read_text()
    assert (feed.is_lines, feed.shown_file) == (True, feed.path)
    assert feed.read_at is not None
    assert before <= feed.read_at <= datetime.now(UTC)
    assert (file.path, file.shown_file, file.read_at) == (own, "", None)


def test_a_url_with_its_scheme_in_upper_case_is_fetched(tmp_path: Path) -> None:
    with misbehaving(pages_of([resource("https://a.example/")])) as server:
        (feed,) = fetch(tmp_path, name_source(server.url.replace("http", "HTTP", 1))).sources
    assert "https://a.example/" in Path(feed.path).read_text()


def test_a_url_of_another_scheme_is_an_error() -> None:
    with pytest.raises(Misuse, match="sources are read over http and https only, or from files"):
        name_source("ftp://a.example/list.json")


def test_all_feeds_that_must_not_fail_are_in_one_error(tmp_path: Path) -> None:
    with misbehaving(failing(404)) as gone, misbehaving(failing(403)) as closed:
        with pytest.raises(SourceError) as raised:
            fetch(tmp_path, name_source(gone.url), name_source(closed.url))
        first, second = str(raised.value).splitlines()
    assert first.startswith(gone.origin)
    assert second.startswith(closed.origin)


@pytest.mark.parametrize("action", [OnError.LAST, OnError.SKIP])
def test_a_feed_that_may_fail_has_its_failure_beside_others(
    action: OnError, tmp_path: Path
) -> None:
    with misbehaving(failing(404)) as gone, misbehaving(sending([resource()])) as whole:
        source = replace(name_source(gone.url), on_error=action)
        failed, fetched = fetch(tmp_path, source, name_source(whole.url)).sources
    assert failed.failure is not None
    assert (failed.path, fetched.failure) == ("", None)


@pytest.mark.parametrize("kind", [Kind.PAYMENTS, Kind.OVERLAY])
def test_payments_and_overlays_must_not_fail(kind: Kind, tmp_path: Path) -> None:
    with misbehaving(failing(404)) as gone:
        source = replace(name_source(gone.url, kind), on_error=OnError.LAST)
        with pytest.raises(SourceError, match="404"):
            fetch(tmp_path, source)
