"""Run the two programs as a user does, and make records for them."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import multiprocessing
import os
import re
import resource
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import httpx
from starlette.types import ASGIApp

from indexer.build import build_snapshot
from indexer.catalogue_file import name_source
from indexer.cli.main import main as index
from indexer.options import BuildOptions, RankingOptions
from service.app import create_app
from service.serve import main as run_service
from service.settings import Settings

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data"
SEEDS = ROOT / "seeds"
SOAK = bool(os.environ.get("RATECARD_SOAK"))

_FORKS = multiprocessing.get_context("forkserver")
PRELOADED = ["service.app", "service.fetch", "service.mcp.server", "uvloop", "whoosh.searching"]
_FORKS.set_forkserver_preload([*PRELOADED, __name__])  # this module last: it freezes the others
sys.modules.setdefault("sniffio", None)  # type: ignore[arg-type]  # httpx looks for its file at each request
gc.freeze()  # a collection in a fork would write to, and so copy, what was imported before it

Json = dict[str, Any]
PLAIN = ("--no-semantic", "--no-downloads")
"""Options of a small build that takes half of the time."""
Program = Callable[[list[str]], int]
Build = Callable[..., int]
"""The type of the fixture `build`, which builds into `artifacts` and returns the exit status."""


def examples(count: int) -> int:
    """Return the number of examples of a property test: twenty times as many in `make soak`."""
    return count * 5 if SOAK else max(count // 4, 5)


def service(service_id: str | None = "one", **fields: Any) -> Json:
    """Return a minimal catalogue record, without an `id` if it is None."""
    record = {"name": "One", "description": "", "endpoints": [endpoint()]} | fields
    return record if service_id is None else {"id": service_id} | record


def endpoint(amount: str = "0.01", currency: str = "USDC", **pricing: Any) -> Json:
    """Return a minimal endpoint."""
    price = {"amount": amount, "currency": currency} | pricing
    return {"url": "https://api.one.example/v1", "method": "GET", "pricing": price}


def priced(*prices: str, **fields: Any) -> list[Json]:
    """Return a service with one endpoint for each price."""
    return [
        service(f"p{number:02}", endpoints=[endpoint(price)]) | fields
        for number, price in enumerate(prices)
    ]


def payment(**fields: Any) -> Json:
    """Return a payment of one cent in the shape of Transaction."""
    return {
        "tx_hash": "0x01",
        "block_timestamp": "2026-05-07T10:16:51.000Z",
        "sender": "0xa",
        "recipient": "0xb",
        "amount": 10_000,
        "decimals": 6,
        "chain": "base",
    } | fields


def write_lines(path: Path, records: Iterable[Any]) -> str:
    """Write JSON lines, and return the path."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


def build_records(folder: Path, records: Iterable[Any], *options: str) -> Path:
    """Build records in a folder, plainly where there are no options; returns the artifacts."""
    if not options:
        return build_snapshot_alone(folder, records)
    source, artifacts = write_lines(folder / "records.jsonl", records), folder / "artifacts"
    assert index(["build", source, "--out", str(artifacts), "--quiet", *options]) == 0
    return artifacts


def build_snapshot_alone(
    folder: Path, records: Iterable[Any], *, semantic: bool = False, **options: Any
) -> Path:
    """Build records without what lies beside a snapshot; returns the artifacts."""
    source, artifacts = write_lines(folder / "records.jsonl", records), folder / "artifacts"
    build_snapshot(
        BuildOptions(
            sources=(name_source(source),),
            out=artifacts,
            ranking=RankingOptions(is_semantic=semantic),
            downloads=False,
            whoosh=False,
            **options,
        )
    )
    return artifacts


def toml_table(keys: Json) -> str:
    """Return the members of a table of TOML."""
    return "".join(f"{name} = {_toml_value(value)}\n" for name, value in keys.items())


def _toml_value(value: Any) -> str:
    """Return a value as TOML, which writes all but tables as JSON does."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name} = {_toml_value(each)}' for name, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    return json.dumps(value)


def write_raw(path: Path, record: Json) -> str:
    """Write a record without escaping non-ASCII characters, and return the path."""
    path.write_text(json.dumps(record, ensure_ascii=False))
    return str(path)


def run_process(
    module: str, *arguments: object, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run `python -m` and capture its output."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120, **options
    )


def run_indexer(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the indexer in a fork, and capture its output."""
    return run_fork(index, *arguments)


def run_fork(
    program: Program, *arguments: object, environ: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program in a fork, and capture its output.

    Importing takes most of the start of a program, so its process is forked from one that has
    imported all of them. Handlers of `atexit` do not run, but that of `logging` does.
    """
    command = [*map(str, arguments)]
    with TemporaryDirectory() as folder:
        outputs = Path(folder, "stdout"), Path(folder, "stderr")
        with forked(program, command, outputs, environ or dict(os.environ)) as process:
            process.join(120)
            assert process.exitcode is not None, f"{command} has not ended"
            texts = [path.read_text() for path in outputs]
            return subprocess.CompletedProcess(command, process.exitcode, *texts)


@contextmanager
def serve(artifacts: Path, *arguments: str) -> Iterator[httpx.Client]:
    """Serve on a free port in a fork, and yield a client."""
    with serve_fork(artifacts, "--port", "0", *arguments) as (client, _):
        yield client


@contextmanager
def serve_fork(
    artifacts: Path, *arguments: str, output: Path = Path(os.devnull)
) -> Iterator[tuple[httpx.Client, BaseProcess]]:
    """Serve in a fork, which appends to `output`, and yield a client and the process."""
    command = ["--artifacts", str(artifacts), *arguments]
    with TemporaryDirectory() as folder:
        log = Path(folder, "stderr")
        log.touch()
        with forked(run_service, command, (output, log), plain_environment()) as process:
            eventually(lambda: address_of(log.read_text()) != "" or not process.is_alive(), 60)
            address = address_of(log.read_text())
            assert address, f"the service did not start:\n{log.read_text()}"
            eventually(partial(is_listening, address))
            with open_client(address) as client:
                yield client, process


def open_client(address: str | httpx.URL, **options: Any) -> httpx.Client:
    """Return a client of a server on this machine, without authorities of TLS: they take 30 ms."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return httpx.Client(base_url=address, verify=context, timeout=30, **options)


class _InProcess(httpx.BaseTransport):
    """Calls an application in this process, on an event loop of its own between the requests."""

    def __init__(self, app: ASGIApp, root_path: str) -> None:
        self._transport = httpx.ASGITransport(app, root_path=root_path)
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._loop.run_until_complete(self._answer(request))

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        response = await self._transport.handle_async_request(request)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        body = b"".join([part async for part in response.stream])
        return httpx.Response(
            response.status_code, headers=response.headers, stream=httpx.ByteStream(body)
        )

    def close(self) -> None:
        self._runner.close()


def in_process(app: ASGIApp, root_path: str = "") -> httpx.Client:
    """Return a client of an application in this process."""
    return httpx.Client(transport=_InProcess(app, root_path), base_url="http://a.example")


def open_app(artifacts: Path, **settings: Any) -> httpx.Client:
    """Return a client of the service in this process, whose lag between requests sheds no load."""
    return in_process(create_app(Settings(artifacts=str(artifacts), max_lag=0, **settings)))


def plain_environment() -> dict[str, str]:
    """Return the environment without settings of the service."""
    return {key: os.environ[key] for key in os.environ if not key.startswith("RATECARD_")}


@contextmanager
def serve_process(
    artifacts: Path, *arguments: str, cwd: Path = ROOT, **options: Any
) -> Iterator[tuple[httpx.Client, subprocess.Popen[str]]]:
    """Run `python -m service`, and yield a client and the process; stop the process at the end."""
    command = [sys.executable, "-m", "service", "--artifacts", str(artifacts), "--port", "0"]
    with subprocess.Popen(
        [*command, *arguments],
        cwd=cwd,
        stderr=subprocess.PIPE,
        text=True,
        env=plain_environment(),
        **options,
    ) as process:
        try:
            address = wait_for_address(process.stderr)
            eventually(partial(is_listening, address))
            with open_client(address) as client:
                yield client, process
        finally:
            process.terminate()


@contextmanager
def forked(
    program: Program,
    arguments: list[str],
    outputs: tuple[Path, Path],
    environ: dict[str, str],
) -> Iterator[BaseProcess]:
    """Run a program in a fork, and terminate it at the end.

    outputs: the files to which its standard output and standard error are appended
    """
    process = _FORKS.Process(target=_run, args=(program, arguments, outputs, environ))
    process.start()
    try:
        yield process
    finally:
        process.terminate()
        process.join(60)
        process.kill()
        process.join()
        process.close()


def _run(
    program: Program,
    arguments: list[str],
    outputs: tuple[Path, Path],
    environ: dict[str, str],
) -> None:
    for number, path in enumerate(outputs, 1):
        with path.open("a") as file:
            os.dup2(file.fileno(), number)
    sys.stdin = os.fdopen(0, closefd=False)  # not the one of multiprocessing: workers inherit it
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(ROOT)
    try:
        sys.exit(program(arguments))
    finally:
        logging.shutdown()  # writes the last lines, as the end of an interpreter does


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let this process write no file beyond a size; the write fails as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def eventually(holds: Callable[[], bool], seconds: float = 30) -> None:
    """Poll until a condition holds, and fail after some seconds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} seconds"
        time.sleep(0.02)


def wait_for_address(stderr: IO[str] | None) -> str:
    """Read the log until the service has started, and return its address."""
    assert stderr is not None
    log = ""
    for line in stderr:
        log += line
        if address := address_of(log):
            threading.Thread(target=_drain, args=(stderr,), daemon=True).start()
            return address
    raise AssertionError(f"the service did not start:\n{log}")


def address_of(log: str) -> str:
    """Return the address of a service that has started, "" before it has."""
    running = re.search(r"running on (\S+) \(", log)
    return running[1] if running and "startup complete" in log else ""


def is_listening(address: str) -> bool:
    """Whether a service accepts connections: a worker says that it has started just before."""
    url = httpx.URL(address)
    with suppress(ConnectionRefusedError), socket.create_connection((url.host, url.port or 80)):
        return True
    return False


def _drain(stderr: IO[str]) -> None:
    with stderr:
        stderr.read()
