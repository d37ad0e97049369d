"""`python -m service.mcp` and `ratecard mcp`: standard input and output."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import IO

import pytest

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from mcp import Client, StdioServerParameters

from service.mcp.__main__ import main
from tests.support.artifacts import current
from tests.support.clients.mcp import ERAS, message_of, text_of
from tests.support.running import (
    ROOT,
    Build,
    Json,
    eventually,
    forked,
    plain_environment,
    service,
)

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


def test_standard_output_has_messages_only_and_the_end_of_input_ends_it(
    sample: Path, tmp_path: Path
) -> None:
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
    with running(sample, tmp_path) as (process, stdin):
        stdin.write("\n".join(lines) + "\n")
        stdin.flush()
        eventually(lambda: sum("result" in message for message in messages(tmp_path)) == 2)
        stdin.close()
        process.join(60)
        errors = (tmp_path / "stderr").read_text()
        assert process.exitcode == 0, errors
    assert all("jsonrpc" in message for message in messages(tmp_path))
    assert "Traceback" not in errors


def test_ctrl_c_ends_it_though_standard_input_stays_open(sample: Path, tmp_path: Path) -> None:
    with running(sample, tmp_path) as (process, stdin):
        stdin.write('{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        stdin.flush()
        eventually(lambda: len(messages(tmp_path)) > 0)
        os.kill(process.pid or 0, signal.SIGINT)
        process.join(30)
        assert process.exitcode == -signal.SIGINT


@contextmanager
def running(artifacts: Path, folder: Path) -> Iterator[tuple[BaseProcess, IO[str]]]:
    """Run the program in a fork, with files in a folder; yield it and its standard input."""
    pipe, outputs = folder / "stdin", (folder / "stdout", folder / "stderr")
    os.mkfifo(pipe)
    command = [str(pipe), "--artifacts", str(artifacts)]
    with (
        forked(read_pipe, command, outputs, plain_environment()) as process,
        pipe.open("w") as stdin,
    ):
        yield process, stdin


def read_pipe(arguments: list[str]) -> int:
    """Run the program with a named pipe as its standard input."""
    pipe, *others = arguments
    os.dup2(os.open(pipe, os.O_RDONLY), 0)
    return main(others)


def messages(folder: Path) -> list[Json]:
    """Return the whole lines of standard output so far."""
    *lines, _ = (folder / "stdout").read_text().split("\n")
    return [json.loads(line) for line in lines]


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
