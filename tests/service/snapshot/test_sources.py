"""Sources of the last build, as `/readyz` shows those that are not current."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.app import create_app
from service.settings import Settings
from service.snapshot.publication import SOURCES, read_sources
from tests.support.running import Build, Json, in_process, service, write_lines
from tests.support.sources.feeds import misbehaving, pages_of
from tests.support.sources.x402 import resource


def old_sources(artifacts: Path) -> list[Json]:
    with in_process(create_app(Settings(artifacts=str(artifacts)))) as client:
        sources: list[Json] = client.get("/readyz").json().get("sources", [])
    return sources


@pytest.mark.parametrize(("action", "state"), [("last", "last"), ("skip", "skipped")])
def test_a_source_that_failed_is_named_until_it_is_read_again(
    action: str, state: str, tmp_path: Path, artifacts: Path, build: Build
) -> None:
    source, options = tmp_path / "feed.jsonl", ("--on-error", action)
    write_lines(source, [service("a")])
    assert build(source, [service("b")], options=options) == 0
    assert old_sources(artifacts) == []
    (first, _) = read_sources(artifacts)
    source.unlink()
    assert build(source, [service("b")], options=options) == 0
    (old,) = old_sources(artifacts)
    assert (old["name"], old["state"]) == (str(source), state)
    assert old["failure"] == f"{source}: there is no such file"
    if action == "last":
        assert old["readAt"] <= str(first.read_at)
    else:
        assert old["readAt"] is None
    write_lines(source, [service("a")])
    assert build(source, [service("b")], options=options) == 0
    assert old_sources(artifacts) == []


def test_a_build_without_changes_says_anew_when_its_sources_were_read(
    tmp_path: Path, artifacts: Path, build: Build
) -> None:
    own = write_lines(tmp_path / "own.jsonl", [service()])
    with misbehaving(pages_of([resource()])) as server:
        assert build(server.url, own) == 0
        before = read_sources(artifacts)
        assert build(server.url, own) == 0
    after = read_sources(artifacts)
    assert [each.name for each in after] == [server.url, own]
    assert all(each.state == "current" for each in (*before, *after))
    assert after[0].read_at == before[0].read_at  # within an hour, the feed is not walked again
    assert str(after[1].read_at) > str(before[1].read_at)


@pytest.mark.parametrize("content", [None, b"", b"\xff", b'[{"name": 1}]'])
def test_without_a_readable_file_no_source_is_known(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / SOURCES).write_bytes(content)
    assert read_sources(tmp_path) == []
