"""`python -m service.mcp` and `ratecard mcp`: standard input and output."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from mcp import Client, StdioServerParameters

from service.mcp.__main__ import main
from tests.support.artifacts import current
from tests.support.clients.mcp import ERAS, message_of, text_of
from tests.support.running import ROOT, Build, service

COMMAND = [sys.executable, "-m", "service.mcp"]
SCRIPT = [str(Path(sysconfig.get_path("scripts"), "ratecard")), "mcp"]


def stdio(artifacts: Path, command: list[str]) -> StdioServerParameters:
    first, *others = command
    arguments = [*others, "--artifacts", str(artifacts)]
    return StdioServerParameters(command=first, args=arguments, cwd=str(ROOT))


@pytest.mark.parametrize(("era", "command"), [("handshake", COMMAND), ("stateless", SCRIPT)])
def test_the_sdk_client_walks_and_calls_over_stdio(
    sample: Path, era: str, command: list[str]
) -> None:
    async def use() -> None:
        async with Client(stdio(sample, command), mode=ERAS[era].mode) as client:
            assert client.protocol_version == ERAS[era].version
            assert len((await client.list_tools()).tools) == 5
            found = await client.call_tool("search_endpoints", {"query": "tide table"})
            first = found.structured_content["endpoints"][0]["id"]
            how = await client.call_tool("how_to_call", {"endpoint": first})
            assert "curl -i" in text_of(how)
            assert (await client.call_tool("get", {})).is_error

    asyncio.run(use())


def test_over_stdio_a_new_snapshot_is_taken_up(artifacts: Path, build: Build) -> None:
    async def use() -> None:
        async with Client(stdio(artifacts, COMMAND)) as client:
            missing = await client.call_tool("catalogue", {})
            assert missing.is_error
            assert "run `ratecard build" in text_of(missing)
            for count in (1, 2):
                records = [service(f"s{number}") for number in range(count)]
                assert await asyncio.to_thread(build, records) == 0
                published = current(artifacts)
                async with asyncio.timeout(30):
                    while True:
                        facts = await client.call_tool("catalogue", {})
                        content = facts.structured_content
                        if content is not None and content["snapshot"] == published:
                            break
                        await asyncio.sleep(0.05)

    asyncio.run(use())


def test_standard_output_has_messages_only_and_the_end_of_input_ends_it(sample: Path) -> None:
    lines = [
        json.dumps(message_of("stateless", "tools/call", name="catalogue", arguments={})),
        *(
            "no JSON",
            "[]",
            "[" * 30_000,
            '{"jsonrpc":"2.0","id":2,"method":"ping","params":{"x":"\\ud800"}}',
        ),
        json.dumps(message_of("stateless", "tools/list")),
    ]
    with subprocess.Popen(
        [*COMMAND, "--artifacts", str(sample)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n".join(lines) + "\n")
        process.stdin.flush()
        results = 0
        while results < 2:
            results += "result" in json.loads(process.stdout.readline())
        rest, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert all("jsonrpc" in json.loads(line) for line in rest.splitlines())
    assert "Traceback" not in errors


def test_ctrl_c_ends_it_though_standard_input_stays_open(sample: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "--artifacts", str(sample)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write('{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        process.stdin.flush()
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == -signal.SIGINT


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "1"], "there is no option `--port` here"),
        (["--http"], "there is no option `--http` here"),
        (["--artifact", "x"], "did you mean `--artifacts`?"),
        (["--opensearch-timeout", "x"], "RATECARD_OPENSEARCH_TIMEOUT: "),
    ],
)
def test_wrong_options_are_an_error(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(arguments)
    except SystemExit as refusal:
        status = int(refusal.code or 0)
    output = capsys.readouterr()
    assert (status, output.out) == (2, "")
    assert message in output.err
