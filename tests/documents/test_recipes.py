"""Every command and example of the README and of the pages Use, Run and Embed runs."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sysconfig
import threading
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import chdir, redirect_stdout
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from indexer.cli.main import main, parse_options
from tests.support.clients.published import CLIENTS, skip_without
from tests.support.gateways import nginx
from tests.support.running import (
    ROOT,
    SEEDS,
    Json,
    endpoint,
    plain_environment,
    serve,
    service,
    write_lines,
)
from tests.support.sources.feeds import misbehaving, resource, sending

ADDRESS = "http://127.0.0.1:8000"
FEED = "https://facilitator.example/discovery/resources"
MAKEFILE = (ROOT / "Makefile").read_text()
SCRIPTS = sysconfig.get_path("scripts")
ELSEWHERE = (
    "make",
    "python3 -m venv",
    "/opt/ratecard",
    "ratecard probe",
    "ratecard serve",
    "source",
    "export",
)
"""Commands that install, serve, or visit other hosts: these are read, and run by other tests."""
KEY = f"0x{'1' * 64}"
TERMS: Json = {
    "scheme": "exact",
    "network": "eip155:8453",
    "asset": "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
    "payTo": "0x04314146cdcef10837de56e4dc30ccd77b892761",
    "maxTimeoutSeconds": 60,
    "extra": {"name": "USDC", "version": "2"},
}


def blocks(name: str, language: str = "") -> list[str]:
    """Return the blocks of a page that have a language, in their order."""
    found = re.findall(
        r"^```(\w*)\n(.*?)^```$", (ROOT / name).read_text(), re.DOTALL | re.MULTILINE
    )
    return [text for own, text in found if own == language]


def commands(name: str) -> list[str]:
    """Return the commands of the consoles of a page."""
    lines = "".join(blocks(name, "console")).splitlines()
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def is_elsewhere(command: str) -> bool:
    return command.startswith(ELSEWHERE)


def run(command: str, folder: Path) -> str:
    """Run a command, of which each part must succeed; returns its output.

    A plain `ratecard` runs in this process, since its start takes most of its time.
    """
    if command.startswith("ratecard ") and not re.search("[|<>&]", command):
        with chdir(folder), redirect_stdout(io.StringIO()) as printed:
            assert main(shlex.split(command)[1:]) == 0, command
        return printed.getvalue()
    if "jq" in command and shutil.which("jq") is None:
        pytest.skip("jq is not installed")
    program = command.replace("curl -s ", "curl -sSf ")
    return run_process(["bash", "-o", "pipefail", "-c", program], folder)


def run_process(words: Sequence[str], folder: Path, **variables: str) -> str:
    environment = plain_environment() | {"PATH": f"{SCRIPTS}:{os.environ['PATH']}"} | variables
    process = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert process.returncode == 0, f"{words}\n{process.stdout}{process.stderr}"
    return process.stdout


def run_program(program: str, folder: Path) -> str:
    """Run a program of a page in this process; returns its output."""
    with chdir(folder), redirect_stdout(io.StringIO()) as printed:
        exec(program, {})  # noqa: S102  # the page's own
    return printed.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the artifacts that `make run` builds."""
    folder = tmp_path_factory.mktemp("catalogue")
    sources = [str(SEEDS / name) for name in ("services.jsonl", "resources.jsonl")]
    options = ["--transactions", str(SEEDS / "transactions.jsonl"), "--quiet"]
    assert main(["build", *sources, *options, "--out", str(folder / "artifacts")]) == 0
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """The address of the service that `make run MCP=1` starts."""
    pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
    with serve(folder / "artifacts", "--mcp") as client:
        yield str(client.base_url).rstrip("/")


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize("name", ["README.md", "docs/use.md"])
def test_every_request_is_answered(name: str, folder: Path, address: str) -> None:
    asked = [each for each in commands(name) if not is_elsewhere(each)]
    assert len(asked) > 2
    for command in asked:
        answer = run(command.replace(ADDRESS, address), folder)
        assert "-example" in answer or json.loads(answer), command


@pytest.mark.parametrize("name", ["README.md", "docs/use.md", "docs/sources.md"])
def test_every_example_of_json_is_json(name: str) -> None:
    for text in blocks(name, "json"):
        json.loads(text)


def test_the_first_example_is_the_answer_of_the_first_request(folder: Path, address: str) -> None:
    first = next(each for each in commands("docs/use.md"))
    (answered,) = json.loads(run(first.replace(ADDRESS, address), folder))["endpoints"]
    shown = json.loads(blocks("docs/use.md", "json")[0])
    (printed,) = shown["endpoints"]
    assert (printed["url"], printed["service"]) == (answered["url"], answered["service"])
    assert printed["match"].keys() <= answered["match"].keys()
    assert printed["pricing"].items() <= answered["pricing"].items()


def test_a_client_of_mcp_finds_an_endpoint(folder: Path, address: str) -> None:
    (program,) = [each for each in blocks("docs/use.md", "python") if "from mcp" in each]
    assert "inkreader.example" in run_program(program.replace(ADDRESS, address), folder)


class Seller(BaseHTTPRequestHandler):
    """Wants 5,000 base units, and answers what was paid."""

    amount = "5000"

    def do_POST(self) -> None:
        """Answer 402 with the terms, or 200 where a payment is sent."""
        self.rfile.read(int(self.headers["content-length"]))
        is_paid = "payment-signature" in self.headers
        accepted = {**TERMS, "amount": self.amount}
        terms = {"x402Version": 2, "resource": {"url": self.path}, "accepts": [accepted]}
        self.send_response(200 if is_paid else 402)
        if not is_paid:
            self.send_header("payment-required", b64encode(json.dumps(terms).encode()).decode())
        body = b"paid" if is_paid else b"{}"
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.mark.parametrize(("amount", "is_paid"), [("5000", True), ("5001", False)])
def test_the_program_that_pays_pays_what_was_listed_and_no_more(
    amount: str, is_paid: bool, tmp_path: Path
) -> None:
    python = CLIENTS / "bin/python"
    skip_without(python)
    (program,) = [each for each in blocks("docs/use.md", "python") if "from x402" in each]
    seller = type("Seller", (Seller,), {"amount": amount})
    with HTTPServer(("127.0.0.1", 0), seller) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        program = program.replace(
            "https://inkreader.example", f"http://127.0.0.1:{server.server_port}"
        )
        command = [str(python), "-c", program]
        try:
            if is_paid:
                assert run_process(command, tmp_path, WALLET_KEY=KEY) == "paid\n"
            else:
                with pytest.raises(AssertionError, match="filtered out by policies"):
                    run_process(command, tmp_path, WALLET_KEY=KEY)
        finally:
            server.shutdown()


def test_the_programs_of_an_engineer_run(folder: Path) -> None:
    programs = blocks("docs/embed.md", "python")
    assert len(programs) == 4
    for program in programs:
        assert "-example" in run_program(program, folder)


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of an operator, with the first catalogue file of the page and its sources."""
    folder = tmp_path_factory.mktemp("operator")
    own = service("own-example", name="Own", category="Weather", description="A forecast")
    write_lines(folder / "services.jsonl", [own | {"endpoints": [endpoint("0.5")]}])
    (folder / "payments").mkdir()
    (folder / "payments" / "may.csv").write_text(
        "network,time,from,to,amount_usd\nbase,2026-05-07T10:16:51Z,0xa,0xb,0.5\n"
    )
    text = next(iter(blocks("docs/run.md", "toml")))
    assert FEED in text
    searched = {"method": "GET", "target": "/v1/search/services?q=beekeeping", "status": 200}
    entries = [
        searched | {"route": "/v1/search/services", "client": f"203.0.113.{number}"}
        for number in range(30)
    ]
    write_lines(folder / "access.log", entries)
    (folder / "access.log.1.gz").write_bytes(gzip.compress((folder / "access.log").read_bytes()))
    with misbehaving(sending({"resources": [resource(1), resource(2)]})) as feed:
        (folder / "catalogue.toml").write_text(text.replace(FEED, feed.url))
        yield folder


def test_the_commands_of_an_operator_run(catalogue: Path) -> None:
    asked = [each for each in commands("docs/run.md") if not is_elsewhere(each)]
    assert len(asked) > 8
    run("ratecard build catalogue.toml --quiet", catalogue)
    with serve(catalogue / "artifacts") as client:
        address = str(client.base_url).rstrip("/")
        for command in asked:
            if "rollback" in command:
                (catalogue / "services.jsonl").write_text(json.dumps(service("later")))
                run("ratecard build catalogue.toml --quiet --accept own", catalogue)
            run(command.replace(ADDRESS, address), catalogue)


def test_commands_that_install_serve_or_visit_are_valid() -> None:
    pages = ("README.md", "docs/use.md", "docs/run.md", "docs/embed.md")
    asked = [each for name in pages for each in commands(name) if is_elsewhere(each)]
    assert len(asked) > 8
    for command in asked:
        program, *words = shlex.split(command)
        match program, words:
            case "make", [target, *_]:
                assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)
            case "ratecard", ["serve"]:
                pass
            case "ratecard", _:
                assert parse_options(words, "ratecard")


def test_the_table_of_cron_builds(catalogue: Path) -> None:
    (line,) = blocks("docs/run.md", "cron")
    fields = line.split(maxsplit=5)
    assert fields[:5] == ["*/15", "*", "*", "*", "*"]
    command = fields[5].replace("/srv/ratecard", ".").replace("/opt/ratecard/bin/", "")
    assert run(command, catalogue) == ""


def test_the_commands_of_root_install_what_is_there() -> None:
    lines = "".join(blocks("docs/run.md", "console")).splitlines()
    asked = [line.removeprefix("# ") for line in lines if line.startswith("# ")]
    assert len(asked) == 5
    for path in re.findall(r"docs/\S+", " ".join(asked)):
        assert (ROOT / path).exists()


def test_the_containers_build_and_serve() -> None:
    yaml = pytest.importorskip("yaml", reason="no parser of YAML is installed")
    services = yaml.safe_load((ROOT / "docs" / "compose.yaml").read_text())["services"]
    _, _, loop = services["indexer"]["entrypoint"]
    (words,) = re.findall(r"python -m indexer (build [^;]+);", loop)
    assert parse_options(["build", "services.jsonl", *shlex.split(words)[2:]], "indexer")
    assert services["indexer"]["build"]["args"] == {"EXTRA": "[indexer]"}
    assert services["ratecard"]["volumes"] == ["artifacts:/artifacts:ro"]
    for each in services.values():
        assert (ROOT / "docs" / each["build"]["context"] / "Dockerfile").resolve().exists()


def test_the_gateway_of_the_first_screen_hides_what_is_private(
    folder: Path, tmp_path: Path
) -> None:
    (configuration,) = blocks("docs/run.md", "nginx")
    with (
        serve(folder / "artifacts") as own,
        nginx(
            tmp_path / "nginx", configuration, {ADDRESS: str(own.base_url).rstrip("/")}
        ) as client,
    ):
        assert client.get("/v1/services?limit=1").json()["services"]
        assert client.get("/docs").status_code == httpx.codes.OK
        for path in ("/metrics", "/readyz"):
            assert client.get(path).status_code == httpx.codes.NOT_FOUND
