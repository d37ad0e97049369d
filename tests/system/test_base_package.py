"""The package without extras: its commands work, or name the extra that they need."""

from __future__ import annotations

import json
import subprocess
import sysconfig
import tomllib
import venv
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.support.running import (
    ROOT,
    open_client,
    plain_environment,
    service,
    wait_for_address,
    write_lines,
)

SCRIPT = "import sys; from indexer.__main__ import ratecard; sys.exit(ratecard())"
FORKS = """
import gc, json, multiprocessing, os, sys
import indexer.cli.main, service.app, whoosh.searching
from indexer.__main__ import ratecard

def run(arguments):
    for number, name in enumerate(("stdout", "stderr"), 1):
        os.dup2(os.open(name, os.O_CREAT | os.O_TRUNC | os.O_WRONLY), number)
    sys.argv[1:] = arguments
    sys.exit(ratecard())

gc.freeze()
for line in sys.stdin:
    process = multiprocessing.get_context("fork").Process(target=run, args=[json.loads(line)])
    process.start()
    process.join(120)
    print(process.exitcode, flush=True)
"""
"""Runs commands in forks of a process that has imported the package, as that takes 0.5 seconds."""
PAGES = ("/", "/services/one", "/v1/search/services?q=one", "/v1/listings?url=https://a.example/")


class Installation:
    """An environment that has the package and its base dependencies, linked, and a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.artifacts = folder / "artifacts"
        self.records = write_lines(folder / "records.jsonl", [service("one"), service("two")])
        self._python = folder / "venv" / "bin" / "python"
        venv.create(folder / "venv", symlinks=True)
        packages = next(folder.glob("venv/lib/python*/site-packages"))
        for path in {*_base_files()}:
            (packages / path.name).symlink_to(path)
        self._forks = self.start(FORKS, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def start(self, program: str, *arguments: str, **pipes: Any) -> subprocess.Popen[str]:
        """Start a program of Python in the folder."""
        command = [str(self._python), "-c", program, *arguments]
        env = plain_environment()
        return subprocess.Popen(command, cwd=self.folder, env=env, text=True, **pipes)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `ratecard` in the folder, in a fork."""
        assert self._forks.stdin is not None
        assert self._forks.stdout is not None
        self._forks.stdin.write(f"{json.dumps(arguments)}\n")
        self._forks.stdin.flush()
        status = int(self._forks.stdout.readline())
        texts = [(self.folder / name).read_text() for name in ("stdout", "stderr")]
        return subprocess.CompletedProcess(arguments, status, *texts)

    def close(self) -> None:
        self._forks.communicate()


def _base_files() -> Iterator[Path]:
    """Yield the files and folders of this environment that an installation without extras has."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements, names = [*project["dependencies"]], set()
    while requirements:
        requirement = Requirement(requirements.pop())
        is_needed = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if is_needed and requirement.name not in names:
            names.add(requirement.name)
            found = distribution(requirement.name)
            requirements += found.requires or []
            parts = {path.parts[0] for path in found.files or []} - {"..", "__pycache__"}
            yield from (Path(str(found.locate_file(part))) for part in parts)
    for package in ("service", "indexer"):
        spec = find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        yield Path(spec.origin).parent
    yield from Path(sysconfig.get_path("purelib")).glob("ratecard-*.dist-info")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation without extras, with a published catalogue of plain records."""
    with closing(Installation(tmp_path_factory.mktemp("base"))) as installation:
        built = installation.run("build", installation.records)
        assert built.returncode == 0, built.stderr
        yield installation


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("serve", "--help"),
        ("build", "--help"),
        ("search", "one", "--json"),
        ("show", "one", "--json"),
        ("why", "https://api.one.example/v1"),
        ("query", "one", "--json"),
        ("diff", "artifacts", "artifacts"),
        ("verify",),
        ("check", "records.jsonl"),
        ("build", "records.jsonl", "--out", "again"),
    ],
    ids=" ".join,
)
def test_commands_work_without_extras(base: Installation, arguments: tuple[str, ...]) -> None:
    done = base.run(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_a_build_without_extras_makes_all_files_and_is_served(base: Installation) -> None:
    names = {"".join(path.suffixes) for path in (base.artifacts / "downloads").rglob("*")}
    assert {".tar.zst", ".jsonl.zst"} <= names
    with base.start(SCRIPT, "serve", "--port", "0", stderr=subprocess.PIPE) as process:
        try:
            with open_client(wait_for_address(process.stderr)) as client:
                for path in PAGES:
                    response = client.get(path)
                    assert response.status_code == 200, response.text
                assert client.get("/v1/services").json()["total"] == 2
        finally:
            process.terminate()


@pytest.mark.parametrize(
    ("extra", "arguments"),
    [
        ("mcp", ("mcp",)),
        ("mcp", ("serve", "--mcp")),
        ("fetch", ("fetch", "https://catalogue.example")),
        ("opensearch", ("serve", "--opensearch-url", "http://a:9200")),
        ("indexer", ("build", "https://feed.example/", "--out", "other")),
        ("indexer", ("build", "records.jsonl", "--transactions", "paid.csv", "--out", "other")),
        (
            "opensearch",
            (
                *("build", "records.jsonl", "--out", "other"),
                *("--opensearch-url", "http://a:9200"),
            ),
        ),
        ("indexer", ("probe", "--out", "probes.jsonl", "--contact", "me@catalogue.example")),
        ("indexer", ("search", "one")),
        ("indexer", ("show", "one")),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_command_that_needs_an_extra_names_it_in_one_line(
    base: Installation, extra: str, arguments: tuple[str, ...]
) -> None:
    (base.folder / "paid.csv").write_text("tx_hash\n")
    done = base.run(*arguments)
    assert done.returncode in {1, 2}
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    advice = f"needs the extra `{extra}`; in the clone: .venv/bin/pip install -e '.[{extra}]'"
    assert advice in line
    assert f"; of a wheel: pip install 'ratecard-….whl[{extra}]'" in line
    assert done.stdout == ""
    assert not (base.folder / "other" / "CURRENT").exists()
