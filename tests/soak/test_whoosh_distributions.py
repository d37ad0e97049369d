"""The three distributions with the import name `whoosh` analyse, write and query alike.

The project pins one. `make soak` installs the others into separate folders, and puts one of these
folders first on the import path of a subprocess.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import requires, version
from pathlib import Path
from typing import NamedTuple

import pytest

from service.snapshot.snapshot import open_snapshot
from tests.support.artifacts import current
from tests.support.running import ROOT, SEEDS, SOAK

OTHERS = ["Whoosh==2.7.4", "Whoosh-Reloaded==2.7.5"]
FOLDER = Path(sys.prefix) / "distributions"
TESTS = (
    "tests/indexer/test_whoosh_index.py",
    "tests/indexer/cli/test_query.py",
    "tests/service/search/test_searcher.py::test_ranking_equals_brute_force_bm25f_on_small_corpora",
    "tests/service/search/test_searcher.py::test_sums_beyond_16_bits_are_exact",
    "tests/service/search/test_lexicon.py::test_the_top_hit_of_a_query",
)
QUERIES = ["weather", "I need the wether of tomorrow", "getCryptoPrice", "trans", "天気", "café"]
SEARCH = """
import json, sys
from service.snapshot.snapshot import open_snapshot
snapshot = open_snapshot(sys.argv[1])
print(json.dumps([snapshot.search(query, 200).ids for query in sys.argv[2:]]))
"""


class Distribution(NamedTuple):
    """A distribution other than the pinned one, and a function that runs Python with it."""

    requirement: str
    folder: Path
    run: Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module", params=OTHERS)
def distribution(request: pytest.FixtureRequest) -> Distribution:
    if not SOAK:
        pytest.skip("other distributions are installed and tested in `make soak`")
    requirement: str = request.param
    folder = FOLDER / requirement
    if not folder.exists():
        install(requirement, folder)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    return Distribution(requirement, folder, run)


def install(requirement: str, folder: Path) -> None:
    """Install into a temporary folder and rename it, so that an existing folder is complete."""
    temporary = folder.with_name(f"{folder.name}.{os.getpid()}")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(temporary)]
    try:
        process = subprocess.run(
            [*command, requirement], capture_output=True, text=True, check=False, timeout=300
        )
        if process.returncode:
            pytest.skip(f"pip cannot install {requirement} here: {process.stderr.strip()[-300:]}")
        if not folder.exists():
            temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def test_one_release_of_whoosh3_is_pinned_exactly() -> None:
    pins = [each for each in requires("ratecard") or [] if each.lower().startswith("whoosh")]
    assert pins == [f"whoosh3=={version('whoosh3')}"]


@pytest.mark.soak
def test_the_distribution_is_imported(distribution: Distribution) -> None:
    name, _, release = distribution.requirement.partition("==")
    program = "import whoosh, whoosh.index; print(whoosh.__file__, whoosh.versionstring())"
    run = distribution.run("-c", program)
    assert run.returncode == 0, run.stderr
    path, reported = run.stdout.split()
    assert Path(path).is_relative_to(distribution.folder)
    assert reported == release
    program = f"import importlib.metadata; print(importlib.metadata.version({name!r}))"
    assert distribution.run("-c", program).stdout.strip() == release


@pytest.mark.soak
def test_the_sample_compiles_to_the_same_files_with_the_same_search_results(
    distribution: Distribution, sample: Path, tmp_path: Path
) -> None:
    sources = ["seeds/services.jsonl", "--transactions", SEEDS / "transactions.jsonl"]
    run = distribution.run("-m", "indexer", "build", *sources, "--out", tmp_path)
    assert run.returncode == 0, run.stderr
    assert current(tmp_path) == current(sample)  # the id is a hash of the files
    run = distribution.run("-c", SEARCH, tmp_path, *QUERIES)
    assert run.returncode == 0, run.stderr
    results = json.loads(run.stdout)
    assert results == [open_snapshot(sample).search(query, 200).ids for query in QUERIES]
    assert all(results[:1])


@pytest.mark.soak
def test_the_tests_of_ranking_and_of_the_index_pass_with_the_distribution(
    distribution: Distribution,
) -> None:
    run = distribution.run("-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "passed" in run.stdout
