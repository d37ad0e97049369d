"""Searches over HTTP beside one MCP client that calls a tool as fast as it can."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import quote

import httpx
import msgspec

from indexer.build import build_snapshot
from indexer.options import BuildOptions
from indexer.sources.catalogue_file import name_source
from tests.benchmarks.corpus import make_documents, make_queries
from tests.benchmarks.services import write_services
from tests.support.running import serve

WRK = shutil.which("wrk") or "wrk"
CONNECTIONS = (1, 4, 32)
SECONDS = 4
ROUNDS = 3
QUERIES = 10_000
MESSAGES: dict[str, dict[str, object]] = {
    "2025-11-25": {},
    "2026-07-28": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    },
}
SEARCH = """
local targets = {{}}
for line in io.lines("{targets}") do targets[#targets + 1] = line end
local next = {start}
request = function()
  next = next % #targets + 1
  return wrk.format("GET", targets[next])
end
"""
CALL = """
wrk.method = "POST"
wrk.body = [[{body}]]
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Accept"] = "application/json, text/event-stream"
wrk.headers["MCP-Protocol-Version"] = "{version}"
wrk.headers["Mcp-Method"] = "tools/call"
wrk.headers["Mcp-Name"] = "search_endpoints"
"""


def bench_agents(count: int) -> None:
    """Print the rate of searches, alone and beside a client of each era of the protocol."""
    documents = make_documents(count)
    with tempfile.TemporaryDirectory(prefix="ratecard-") as name:
        folder = Path(name)
        source, artifacts = folder / "services.jsonl", folder / "artifacts"
        write_services(source, documents)
        build_snapshot(BuildOptions(sources=(name_source(str(source)),), out=artifacts))
        queries = [each.words for each in make_queries(documents, QUERIES, seed=1)]
        targets = [f"/v1/search/services?endpoints=none&q={quote(query)}" for query in queries]
        (folder / "targets.txt").write_text("\n".join(targets))
        print("\n| connections | alone | beside | share | calls | era |\n|---|---|---|---|---|---|")
        # Without a cache, each search is one that was not asked before.
        with serve(artifacts, "--mcp", "--cache-bytes", "0") as client:
            for version, meta in MESSAGES.items():
                call = _write_call(folder, client, queries[0], version, meta)
                for connections in CONNECTIONS:
                    _compare(folder, str(client.base_url), connections, call, version)


def _compare(
    folder: Path, address: str, connections: int, call: tuple[str, str], version: str
) -> None:
    shares, last = [], (0.0, 0.0, 0.0)
    for number in range(ROUNDS):
        alone = _rate(_search(folder, address, connections, 2 * number))
        options = ["-t1", "-c1", f"-d{SECONDS + 1}s", "-s"]
        caller = subprocess.Popen([WRK, *options, *call], stdout=subprocess.PIPE)
        beside = _rate(_search(folder, address, connections, 2 * number + 1))
        output, _ = caller.communicate()
        calls = _requests_per_second(output.decode())
        shares.append(beside / alone)
        last = (alone, beside, calls)
    share = sorted(shares)[ROUNDS // 2]
    alone, beside, calls = last
    rates = f"{alone:,.0f} | {beside:,.0f} | {share:.2f} | {calls:,.0f}"
    print(f"| {connections} | {rates} | {version} |")


def _search(folder: Path, address: str, connections: int, run: int) -> list[str]:
    script = folder / "search.lua"
    script.write_text(SEARCH.format(targets=folder / "targets.txt", start=run * QUERIES // 7))
    return [WRK, "-t1", f"-c{connections}", f"-d{SECONDS}s", "-s", str(script), address]


def _rate(command: list[str]) -> float:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    if "Non-2xx" in done.stdout:
        raise SystemExit(f"searches failed:\n{done.stdout}")
    return _requests_per_second(done.stdout)


def _requests_per_second(output: str) -> float:
    return float(output.partition("Requests/sec:")[2].split()[0])


def _write_call(
    folder: Path, client: httpx.Client, query: str, version: str, meta: dict[str, object]
) -> tuple[str, str]:
    params: dict[str, object] = {"name": "search_endpoints", "arguments": {"query": query}}
    if meta:
        params["_meta"] = meta
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    body = msgspec.json.encode(message).decode()
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": version,
        "mcp-method": "tools/call",
        "mcp-name": "search_endpoints",
    }
    answer = client.post("/mcp", json=message, headers=headers)
    if answer.status_code != 200 or answer.json()["result"].get("isError"):
        raise SystemExit(f"the call failed: {answer.text}")
    script = folder / f"call-{version}.lua"
    script.write_text(CALL.format(body=body, version=version))
    return str(script), f"{client.base_url}/mcp"
