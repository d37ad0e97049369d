"""The recipe of a mirror gives the list of the services, whatever the copy was before."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.cli.main import main
from indexer.snapshot.rollback import roll_back
from tests.support.artifacts import current, decompressed, folder, snapshots
from tests.support.running import ROOT, Json, eventually, examples, serve, service

DOCUMENT = ROOT / "docs" / "copies.md"
Copy = dict[str, bytes]


def read_recipe() -> Callable[[Copy, str], None]:
    """Return the function `update` of the document."""
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    (recipe,) = [block for block in blocks if "def update(" in block]
    names: dict[str, Any] = {"__name__": "recipe"}
    exec(compile(recipe, str(DOCUMENT), "exec"), names)  # noqa: S102
    update: Callable[[Copy, str], None] = names["update"]
    return update


def services(versions: str) -> list[Json]:
    """Return a service for each letter but `-`: its place is the id, the letter its version."""
    return [
        service(f"s{place}~{'.-_'[place % 3]}", version=version, big=2**70, text='\u2028é"\\')
        for place, version in enumerate(versions)
        if version != "-"
    ]


def publish(artifacts: Path, versions: str, *options: str) -> None:
    source = artifacts.parent / "source.json"
    source.write_text(json.dumps(services(versions)))
    options = ("--no-semantic", "--quiet", "--accept", str(source), *options)
    assert main(["build", str(source), "--out", str(artifacts), *options]) == 0


def offered(artifacts: Path) -> bytes:
    """Return the list of the published snapshot."""
    path = artifacts / "downloads" / f"{current(artifacts)}.jsonl.zst"
    return decompressed(path.read_bytes())


def text_of(copy: Copy) -> bytes:
    return b"".join(b"%b\n" % copy[each] for each in sorted(copy))


catalogues = st.text("ab-", min_size=1, max_size=8)
histories = st.lists(
    st.tuples(st.one_of(st.none(), catalogues), st.booleans()), min_size=1, max_size=6
)
"""Builds, or rollbacks, and whether the mirror looks after each."""


@settings(max_examples=examples(20))
@given(catalogues, histories, st.randoms())
def test_a_mirror_of_any_age_equals_the_list_to_the_byte(
    first: str, history: list[tuple[str | None, bool]], chance: random.Random
) -> None:
    update, always, copies = read_recipe(), Copy(), [Copy()]
    with TemporaryDirectory() as tmp:
        artifacts = Path(tmp, "artifacts")
        publish(artifacts, first)
        with serve(artifacts) as client:
            url = str(client.base_url)
            for step, is_looking in (("", True), *history, ("", True)):
                if step is None and len(snapshots(artifacts)) > 1:
                    roll_back(artifacts)
                elif step:
                    publish(artifacts, step)
                if is_looking:
                    wait_for(client, current(artifacts))
                    old = dict(chance.choice(copies))
                    for copy in (always, old):
                        update(copy, url)
                        assert text_of(copy) == offered(artifacts)
                    copies.append(old)


def wait_for(client: httpx.Client, snapshot: str) -> None:
    eventually(lambda: bool(client.get("/healthz").headers.get("ratecard-snapshot") == snapshot))


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Copy]:
    """The artifacts of an origin of three hundred services, and a copy of it."""
    artifacts, copy = tmp_path_factory.mktemp("origin") / "artifacts", Copy()
    publish(artifacts, "a" * 300)
    with serve(artifacts) as client:
        read_recipe()(copy, str(client.base_url))
    assert text_of(copy) == offered(artifacts)
    return artifacts, copy


@pytest.fixture
def mirrored(origin: tuple[Path, Copy], artifacts: Path) -> tuple[Path, Copy]:
    """The same, to change."""
    return shutil.copytree(origin[0], artifacts), dict(origin[1])


@pytest.mark.parametrize("changed", ["b", "b" * 20, "b" * 300, "-", "-" * 299])
def test_few_changes_and_many_are_copied(changed: str, mirrored: tuple[Path, Copy]) -> None:
    artifacts, copy = mirrored
    publish(artifacts, changed + "a" * (300 - len(changed)))
    with serve(artifacts) as client:
        read_recipe()(copy, str(client.base_url))
    assert text_of(copy) == offered(artifacts)


def test_a_copy_with_foreign_and_damaged_services_is_made_good(
    mirrored: tuple[Path, Copy],
) -> None:
    artifacts, copy = mirrored
    first = min(copy)
    copy[first] = copy[first][:-1]
    copy["foreign"] = b"{}"
    with serve(artifacts) as client:
        read_recipe()(copy, str(client.base_url))
    assert text_of(copy) == offered(artifacts)


def test_an_index_of_ten_builds_ago_is_enough(mirrored: tuple[Path, Copy]) -> None:
    artifacts, copy = mirrored
    for build in range(10):
        publish(artifacts, "a" * build + "b" + "a" * 289 + "-" * build)
    with serve(artifacts) as client:
        read_recipe()(copy, str(client.base_url))
    assert text_of(copy) == offered(artifacts)


def test_without_downloads_a_copy_stays_as_it_was(mirrored: tuple[Path, Copy]) -> None:
    artifacts, copy = mirrored
    before = dict(copy)
    publish(artifacts, "b" * 300, "--no-downloads")
    with serve(artifacts) as client, pytest.raises(Exception, match=r"offers|files|whole|download"):
        read_recipe()(copy, str(client.base_url))
    assert copy == before
    assert folder(artifacts).exists()
