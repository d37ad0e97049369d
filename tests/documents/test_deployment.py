"""The container, the systemd units and the document for operators do what they say."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.serve import DEFAULTS
from service.settings import Settings, variable
from service.snapshot.manifest import MANIFEST
from tests.support.publishing import publish_service
from tests.support.running import ROOT, eventually, open_client, serve

DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", "")
UNIT = (ROOT / "docs" / "ratecard.service").read_text()
RUN = (ROOT / "docs" / "run.md").read_text()
REFERENCE = (ROOT / "docs" / "reference.md").read_text()
COMPOSE = (ROOT / "docs" / "compose.yaml").read_text()
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
UNITS = {path.name: path.read_text() for path in (ROOT / "docs").glob("ratecard*.*")}
INTERPRETER = "/opt/ratecard/bin/python"

analysed = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd is not installed"
)


def instruction(name: str) -> list[str]:
    """The command of an instruction of the Dockerfile, in the form that no shell reads."""
    (command,) = re.findall(rf"^{name} .*?(\[.*\])$", DOCKERFILE, re.MULTILINE)
    words: list[str] = json.loads(command)
    return words


def environment() -> dict[str, str]:
    """What the image sets."""
    (line,) = re.findall(r"^ENV (.+)$", DOCKERFILE, re.MULTILINE)
    return dict(setting.split("=", 1) for setting in line.split())


def test_the_image_serves_from_an_empty_folder_and_its_health_check_tells(
    sample: Path, tmp_path: Path
) -> None:
    """By the commands and with the settings of the image, and with the Python of the tests."""
    (tmp_path / "empty").mkdir()
    settings = environment() | {
        "PATH": os.environ["PATH"],
        "RATECARD_ARTIFACTS": str(sample),
        "UVICORN_HOST": "127.0.0.1",
        "UVICORN_PORT": "0",
        "TMPDIR": str(tmp_path),
        "http_proxy": "http://127.0.0.1:9",  # as Docker may set it in every container
    }

    def python(command: list[str]) -> list[str]:
        assert command[0] == "python"
        return [sys.executable, *command[1:]]

    def healthy(port: str) -> int:
        check = python(instruction("HEALTHCHECK"))
        known = settings | {"UVICORN_PORT": port}
        return subprocess.run(
            check, env=known, check=False, timeout=30, stderr=subprocess.DEVNULL
        ).returncode

    log = tmp_path / "log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            python(instruction("ENTRYPOINT") + instruction("CMD")),
            cwd=tmp_path / "empty",
            env=settings,
            stderr=output,
        ) as process,
    ):
        try:
            eventually(lambda: "running on" in log.read_text() or process.poll() is not None)
            (address,) = re.findall(r"running on (\S+)", log.read_text())
            port = address.rpartition(":")[2]
            assert healthy(port) == 0
            with open_client(address) as client:
                assert client.get("/v1/search/services?q=tide").json()["total"] > 0
                assert client.get("/docs").status_code == 200
        finally:
            process.terminate()
        assert process.wait(30) == 0
    assert healthy(port) == 1
    assert list((tmp_path / "empty").iterdir()) == []


def test_the_image_is_built_of_what_it_is_given_and_needs() -> None:
    given = {
        line.strip("!/") for line in (ROOT / ".dockerignore").read_text().split() if "!" in line
    }
    copied = {
        name
        for line in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
        for name in line.split()
    }
    needed = {"pyproject.toml", PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]}
    assert given == copied == needed | {"service", "indexer"}
    assert re.search(r"^USER \d+:\d+$", DOCKERFILE, re.MULTILINE)


@pytest.mark.parametrize("text", [DOCKERFILE, UNIT], ids=["image", "unit"])
def test_only_settings_that_exist_are_named(text: str) -> None:
    named = set(re.findall(r"RATECARD_[A-Z_]+", text))
    assert named
    assert named <= {variable(name) for name in Settings.__struct_fields__}


@analysed
def test_the_units_are_valid(tmp_path: Path) -> None:
    assert UNITS.keys() == {"ratecard.service", "ratecard-index.service", "ratecard-index.timer"}
    for name, text in UNITS.items():
        (tmp_path / name).write_text(text.replace(INTERPRETER, sys.executable))
    paths = [str(tmp_path / name) for name in UNITS]
    verified = analyse("verify", "--man=no", *paths)
    assert (verified.returncode, verified.stderr) == (0, "")


@analysed
def test_the_service_is_confined(tmp_path: Path) -> None:
    unit = tmp_path / "ratecard.service"
    unit.write_text(UNIT)
    assessed = analyse("security", "--offline=yes", "--threshold=20", str(unit))  # 2.0 of 10
    assert assessed.returncode == 0, assessed.stdout


def analyse(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", "--no-pager", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_there_is_time_to_stop() -> None:
    (allowed,) = re.findall(r"^TimeoutStopSec=(\d+)$", UNIT, re.MULTILINE)
    assert DEFAULTS["timeout_graceful_shutdown"] < int(allowed)
    (of_docker,) = re.findall(r"stop_grace_period: (\d+)s", COMPOSE)
    assert int(of_docker) == int(allowed)


def test_a_service_that_is_older_than_what_is_published_serves_the_one_before_it(
    artifacts: Path,
) -> None:
    publish_service(artifacts, "old")
    path = publish_service(artifacts, "new") / MANIFEST
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps(manifest | {"format": manifest["format"] + 1}))
    with serve(artifacts) as client:
        assert client.get("/v1/services/old").status_code == 200
        assert client.get("/readyz").json()["refused"]["code"] == "snapshot_unsupported"


def test_every_metric_is_documented_and_no_other(client: httpx.Client) -> None:
    client.get("/healthz")
    metrics = client.get("/metrics").text
    served = set(re.findall(r"^(ratecard_\w+)", metrics, re.MULTILINE))
    described = set(re.findall(r"\bratecard_[a-z_]+", RUN + REFERENCE))
    assert described <= served | {name.removesuffix("_bucket") for name in served}
    parts = re.compile("_(bucket|count|sum)$")
    made_by_the_library = {name for name in served if name.endswith("_created")}
    assert {parts.sub("", name) for name in served - made_by_the_library} <= described
