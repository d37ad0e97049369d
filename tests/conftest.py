"""Fixtures that several tests share."""

from __future__ import annotations

import fcntl
import gc
import json
import math
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import is_hypothesis_test, settings
from xdist.remote import Producer  # type: ignore[import-untyped]  # pytest-xdist has no types
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]  # the same

from indexer.__main__ import main
from tests.support.intake import CatalogueFolder
from tests.support.running import (
    PLAIN,
    SEEDS,
    Build,
    Json,
    examples,
    serve,
    toml_table,
    write_lines,
)

TESTS = Path(__file__).parent
LONGEST = {"system", "soak"}
SAMPLE = "sample"

NOT_SEMANTIC = ("--no-semantic",)
NO_DOWNLOADS = ("--no-downloads",)
BUILDS: dict[str, tuple[str, ...]] = {
    "documents": (),
    "indexer/processes/test_pool.py": NO_DOWNLOADS,
    "indexer/derive/test_deriving.py": NO_DOWNLOADS,
    "indexer/snapshot": NOT_SEMANTIC,
    "indexer/test_progress.py": NOT_SEMANTIC,
    "service/api": NOT_SEMANTIC,
    "service/api/test_downloads.py": (),
    "service/artifacts": NOT_SEMANTIC,
    "service/mcp": NOT_SEMANTIC,
    "service/snapshot/test_alternatives.py": NO_DOWNLOADS,
}
"""Options of `build` by file, or by the folder that a file is in.

Other tests build PLAIN, as vectors and downloads take more than half of a small build."""

settings.register_profile("ratecard", max_examples=examples(100), deadline=None)
settings.load_profile("ratecard")


class Scheduling(LoadFileScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Gives a process one file at a time, and all of tests/web to one: browsers starve each other.

    The groups of `--dist loadgroup` would do, but pytest-xdist 3.8 ignores them with pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return "tests/web" if file.startswith("tests/web/") else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """Replace the scheduler of pytest-xdist."""
    return Scheduling(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """Handle SIGINT, which a shell without job control has its background processes ignore.

    Programs that tests start and interrupt would inherit that. Names a path that does not exist:
    pytest-xdist says that no tests ran.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for argument in config.args:
        if not Path(path := argument.partition("::")[0]).exists():
            raise pytest.UsageError(f"file or directory not found: {path}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their requirements; start with the longest, so that no process ends alone."""
    for item in items:
        if item.path.parent == TESTS / "web":
            item.add_marker("browser")
        if "cluster" in getattr(item, "fixturenames", ()):
            item.add_marker("opensearch")
        if is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker("soak")
    items.sort(
        key=lambda item: (
            not item.get_closest_marker("browser"),
            item.path.parent.name not in LONGEST,
        )
    )


def pytest_collection_finish() -> None:
    """Freeze collected tests and modules: each build collects garbage, and would walk them all."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Freeze what the tests of a file leave, such as reports: each build collects garbage."""
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifacts of the sample catalogue, which one process builds for all of pytest-xdist."""
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    artifacts = folder / SAMPLE
    with (folder / "sample.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (artifacts / "CURRENT").exists():
            transactions = str(SEEDS / "transactions.jsonl")
            arguments = ["--transactions", transactions, "--out", str(artifacts)]
            assert main(["build", str(SEEDS / "services.jsonl"), *arguments]) == 0
    return artifacts


@pytest.fixture(scope="session")
def sample_client(sample: Path) -> Iterator[httpx.Client]:
    """A client of a service that serves the sample catalogue."""
    with serve(sample) as client:
        yield client


@pytest.fixture(scope="module")
def published(sample: Path) -> Path:
    """The artifacts that `client` asks for: of the sample, unless a module publishes its own."""
    return sample


@pytest.fixture(scope="module")
def client(published: Path, request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    """A client of a service that serves `published`."""
    if published.name == SAMPLE:
        yield request.getfixturevalue("sample_client")
        return
    with serve(published) as client:
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
def catalogue(tmp_path: Path) -> CatalogueFolder:
    """A folder for a catalogue file and its artifacts."""
    return CatalogueFolder(tmp_path)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the examples of properties may share."""
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture
def build(
    artifacts: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Build:
    """Return a function that builds into `artifacts`, from files or from lists of records.

    With `keys` of all sources, or a `policy`, it builds from a catalogue file; if `whole`, with
    vectors and downloads.

    Slow stages print no lines, so that errors do not depend on the speed of the machine.
    """
    monkeypatch.setattr("indexer.progress.MIN_SECONDS", math.inf)
    path = request.path.relative_to(TESTS)
    defaults = BUILDS.get(path.as_posix(), BUILDS.get(path.parent.as_posix(), PLAIN))

    def build(
        *sources: Any,
        payments: Any = None,
        options: tuple[str, ...] = (),
        keys: Json | None = None,
        policy: Json | None = None,
        whole: bool = False,
    ) -> int:
        folder = artifacts.parent
        names = [_file(folder / f"source{n}.jsonl", source) for n, source in enumerate(sources)]
        if keys or policy:
            names = [_catalogue(folder / "catalogue.toml", names, keys or {}, policy or {})]
        arguments = ["build", *names, "--out", str(artifacts), *options]
        arguments += () if whole else defaults
        if payments is not None:
            arguments += ["--transactions", _file(folder / "payments.jsonl", payments)]
        return main(arguments)

    return build


def _catalogue(path: Path, names: list[str], keys: Json, policy: Json) -> str:
    """Write a catalogue file of these sources, which fail the build, and return its path."""
    tables = [f"[policy]\n{toml_table(policy)}"]
    for number, name in enumerate(names):
        place = {"url" if name.startswith("http") else "path": name}
        source = {"name": f"source{number}", "on_error": "fail", **place, **keys}
        if "url" not in place:
            source.pop("every", None)
        tables.append(f"[[source]]\n{toml_table(source)}")
    path.write_text("\n".join(tables))
    return str(path)


def _file(path: Path, source: Any) -> str:
    """Write a list of records to a file; return the path of the file or of the source."""
    return write_lines(path, source) if isinstance(source, list) else str(source)
