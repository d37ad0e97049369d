"""`python -m service.replicas`, and the service with `--follow`: options, state and metrics."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from service.__main__ import main as run_service
from service.replicas.__main__ import main as run_replica
from tests.support.artifacts import current
from tests.support.running import (
    ROOT,
    Build,
    Program,
    eventually,
    plain_environment,
    run_fork,
    serve,
    service,
)
from tests.support.stores.origins import OriginServer, push, serve_origin

KEY = Ed25519PrivateKey.generate()
INTERVAL = ("--follow-interval", "0.2")


@pytest.fixture
def origin(build: Build, artifacts: Path, tmp_path: Path) -> Iterator[OriginServer]:
    """An origin that has published a snapshot, which is signed."""
    assert build([service("one")]) == 0
    push(artifacts, tmp_path / "bucket", sign=sign)
    with serve_origin(tmp_path / "bucket") as server:
        yield server


@pytest.fixture
def replica(tmp_path: Path) -> Path:
    return tmp_path / "replica"


@pytest.fixture
def public_key(tmp_path: Path) -> Path:
    path = tmp_path / "public.pem"
    public = KEY.public_key()
    path.write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return path


def sign(text: bytes) -> str:
    return KEY.sign(text).hex()


def sign_with_another_key(text: bytes) -> str:
    return Ed25519PrivateKey.generate().sign(text).hex()


def is_refused(client: httpx.Client, reason: str) -> bool:
    error = following(client).get("error", {"code": "", "message": ""})
    return error["code"] == "pointer_refused" and reason in error["message"]


def run(
    *arguments: object, program: Program = run_replica, **environment: str
) -> subprocess.CompletedProcess[str]:
    return run_fork(program, *arguments, environ=plain_environment() | environment)


def test_once_fetches_what_is_published_and_exits(origin: OriginServer, replica: Path) -> None:
    process = run("--follow", origin.url, "--artifacts", replica, "--once")
    assert (process.returncode, process.stdout) == (0, "")
    assert f"serving snapshot {current(replica)} of {origin.url}" in process.stderr


def test_once_exits_with_1_and_the_reason_when_it_fails(
    origin: OriginServer, replica: Path
) -> None:
    origin.answer_with = lambda _: 500
    process = run("--once", RATECARD_FOLLOW=origin.url, RATECARD_ARTIFACTS=str(replica))
    assert process.returncode == 1
    assert "500" in process.stderr
    assert "Traceback" not in process.stderr


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ([], "`--follow` is missing"),
        (["--follow", "ftp://host"], "RATECARD_FOLLOW"),
        (["--follow", "catalogue.example"], "RATECARD_FOLLOW"),
        (["--follow", "file:///x", "--follow-max-age", "5"], "needs RATECARD_TRUST"),
        (["--follow", "file:///x", "--trust", "/nowhere.pem"], "/nowhere.pem"),
        (["--follow", "file:///x", "--follow-interval", "0"], "RATECARD_FOLLOW_INTERVAL"),
        (["--follow", "file:///x", "--keep", "0"], "RATECARD_KEEP"),
    ],
)
@pytest.mark.parametrize("program", [run_service, run_replica])
def test_invalid_settings_are_refused_at_the_start(
    options: list[str], reason: str, program: Program
) -> None:
    if program is run_service and not options:
        return
    process = run(*options, program=program)
    assert process.returncode == 2
    assert process.stderr.startswith("error: ")
    assert reason in process.stderr


def test_an_error_whose_body_never_ends_ends_the_follower_alone(
    origin: OriginServer, replica: Path
) -> None:
    origin.answer_with, origin.is_endless = lambda _: 403, True
    script = (
        "import sys; from service.replicas import __main__ as program\n"
        "program.MEMORY = 100 << 20; program.limit_memory()\n"
        "sys.exit(program.main())"
    )
    process = subprocess.run(
        [sys.executable, "-c", script, "--once", "--follow", origin.url, "--artifacts", replica],
        cwd=ROOT,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert process.returncode
    assert origin.bytes_of("/") < 300 << 20


@pytest.mark.parametrize("url", ["az://user:secret@container/x", "http://user:sec/ret@host"])
def test_the_reason_for_which_a_store_is_not_opened_has_no_credentials(url: str) -> None:
    process = run("--once", RATECARD_FOLLOW=url)
    assert process.returncode == 2
    assert "store cannot be opened: " in process.stderr
    assert "user" not in process.stderr


def test_without_the_setting_nothing_of_the_extra_is_imported(tmp_path: Path) -> None:
    script = (
        "import sys; from service.app import create_app; from service.settings import Settings\n"
        f"create_app(Settings(artifacts={str(tmp_path)!r}))\n"
        "print({'obstore', 'cryptography', 'service.replicas.follower'} & sys.modules.keys())"
    )
    process = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert process.stdout == "set()\n"


def test_a_replica_answers_503_and_says_why_until_the_first_snapshot(
    origin: OriginServer, replica: Path
) -> None:
    origin.answer_with = lambda _: 500
    with serve(replica, "--follow", origin.url, *INTERVAL) as client:
        eventually(lambda: "500" in client.get("/readyz").text)
        response = client.get("/readyz")
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "snapshot_missing"
        assert client.get("/v1/services").status_code == 503
        assert metric(client, "ratecard_following_failures_total") > 0
        origin.answer_with = lambda _: None
        eventually(lambda: client.get("/readyz").status_code == 200)
        assert client.get("/v1/services").json()["total"] == 1


def test_readiness_has_the_status_of_an_origin_and_nothing_of_its_body(
    origin: OriginServer, replica: Path
) -> None:
    origin.answer_with = lambda _: 403
    origin.body = b"\x1b[31msecret" + b"7" * 2_000_000
    with serve(replica, "--follow", origin.url, *INTERVAL) as client:
        eventually(lambda: "403 Forbidden" in client.get("/readyz").text)
        response = client.get("/readyz")
        assert len(response.text) < 1000
        assert "secret" not in response.text
        assert client.get("/healthz").status_code == 200


def test_readiness_and_metrics_say_how_far_behind_a_replica_is(
    origin: OriginServer, replica: Path, build: Build, artifacts: Path
) -> None:
    with serve(replica, "--follow", origin.url, *INTERVAL) as client:
        eventually(lambda: client.get("/readyz").status_code == 200)
        state = following(client)
        assert state["snapshot"] == current(artifacts)
        assert (state["origin"], state["serial"]) == (origin.url, 1)
        assert state["seconds_behind"] == 0
        assert "error" not in state
        fetched = metric(client, "ratecard_following_fetched_bytes_total")
        assert fetched > 1000
        origin.answer_with = lambda path: 500 if path.startswith(("sections", "patches")) else None
        assert build([service("one"), service("two", name="Two")]) == 0
        push(artifacts, origin.bucket, sign=sign)
        eventually(lambda: "error" in following(client))
        state = following(client)
        assert state["error"]["code"] == "origin_unavailable"
        assert (state["snapshot"], state["serial"]) == (current(artifacts), 2)
        eventually(lambda: following(client)["seconds_behind"] > 0)
        assert metric(client, "ratecard_following_seconds_behind") > 0
        assert client.get("/readyz").status_code == 200
        assert client.get("/v1/services").json()["total"] == 1
        origin.answer_with = lambda _: None
        eventually(lambda: client.get("/v1/services").json()["total"] == 2)
        eventually(lambda: following(client)["seconds_behind"] == 0)
        assert metric(client, "ratecard_following_seconds_behind") == 0
        assert metric(client, "ratecard_following_contact_timestamp_seconds") > 1.7e9


def test_a_service_that_follows_nothing_says_nothing_of_it(client: httpx.Client) -> None:
    assert "following" not in client.get("/readyz").json()
    assert "following" not in client.get("/metrics").text


def test_a_replica_that_trusts_a_key_refuses_what_the_key_did_not_sign(
    origin: OriginServer, replica: Path, build: Build, artifacts: Path, public_key: Path
) -> None:
    options = ("--follow", origin.url, "--trust", str(public_key), *INTERVAL)
    with serve(replica, *options) as client:
        eventually(lambda: client.get("/readyz").status_code == 200)
        signed = current(artifacts)
        assert build([service("foreign")]) == 0
        forgeries = ((None, "is not signed"), (sign_with_another_key, "with the trusted key"))
        for forge, reason in forgeries:
            push(artifacts, origin.bucket, sign=forge)
            eventually(partial(is_refused, client, reason))
            assert client.get("/readyz").json()["snapshot"] == signed
        push(artifacts, origin.bucket, sign=sign)
        eventually(lambda: client.get("/readyz").json()["snapshot"] == current(artifacts))


def test_an_old_pointer_is_refused_and_what_was_fetched_stays(
    origin: OriginServer, replica: Path, artifacts: Path, public_key: Path
) -> None:
    trust = ("--trust", public_key, "--follow-max-age", "60")
    options = ("--follow", origin.url, "--artifacts", replica, "--once")
    assert run(*options, *trust).returncode == 0
    push(artifacts, origin.bucket, sign=sign, published_at="2026-01-01T00:00:00Z")
    process = run(*options, *trust)
    assert process.returncode == 1
    assert "seconds old, more than 60" in process.stderr
    assert current(replica) == current(artifacts)


def following(client: httpx.Client) -> dict[str, Any]:
    state: dict[str, Any] = client.get("/readyz").json()["following"]
    return state


def metric(client: httpx.Client, name: str) -> float:
    (line,) = (
        line for line in client.get("/metrics").text.splitlines() if line.startswith(f"{name} ")
    )
    return float(line.split()[1])
