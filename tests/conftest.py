"""Fixtures that several tests share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from indexer.__main__ import main
from tests.support.running import SEEDS, Build, Json, serve, write_lines

LONGEST = ("test_whoosh_distributions.py", "test_crash.py", "test_hostile.py", "test_soak.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their requirements, and group them for pytest-xdist.

    Tests with a browser are one group, as two concurrent browsers starve each other; the other
    groups are files. The longest groups start first, so that no process works alone at the end.
    """
    for item in items:
        needs_browser = "browser" in getattr(item, "fixturenames", ())
        if needs_browser:
            item.add_marker("browser")
        if item.path.parent.name == "system":
            item.add_marker("system")
        item.add_marker(pytest.mark.xdist_group("browser" if needs_browser else str(item.path)))
    items.sort(
        key=lambda item: (
            not item.get_closest_marker("browser"),
            item.path.name not in LONGEST,
        )
    )


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifacts of the sample catalogue."""
    artifacts = tmp_path_factory.mktemp("sample")
    transactions = str(SEEDS / "transactions.jsonl")
    arguments = ["--transactions", transactions, "--out", str(artifacts)]
    assert main(["build", str(SEEDS / "services.jsonl"), *arguments]) == 0
    return artifacts


@pytest.fixture(scope="session")
def client(sample: Path) -> Iterator[httpx.Client]:
    """A client of a service that serves the sample catalogue."""
    with serve(sample) as client:
        yield client


@pytest.fixture(scope="session")
def seeds() -> list[Json]:
    """The records of the sample catalogue, in the order of the file."""
    with (SEEDS / "services.jsonl").open() as file:
        return [json.loads(line) for line in file]


@pytest.fixture
def artifacts(tmp_path: Path) -> Path:
    """The path of an artifacts folder that does not exist yet."""
    return tmp_path / "artifacts"


@pytest.fixture
def build(artifacts: Path) -> Build:
    """Return a function that builds into `artifacts`, from files or from lists of records."""

    def build(*sources: Any, payments: Any = None, options: tuple[str, ...] = ()) -> int:
        folder = artifacts.parent
        names = [_file(folder / f"source{n}.jsonl", source) for n, source in enumerate(sources)]
        arguments = ["build", *names, "--out", str(artifacts), *options]
        if payments is not None:
            arguments += ["--transactions", _file(folder / "payments.jsonl", payments)]
        return main(arguments)

    return build


def _file(path: Path, source: Any) -> str:
    """Write a list of records to a file; return the path of the file or of the source."""
    return write_lines(path, source) if isinstance(source, list) else str(source)
