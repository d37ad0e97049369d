"""The gateways of docs/gateway.md, run with its configurations in front of services."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.running import ROOT, Json, eventually, open_client, serve_fork

PAGE = (ROOT / "docs" / "gateway.md").read_text()


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


BOUNDS, PREFIX, CACHE, INSTANCES = _blocks("nginx")
(APACHE,) = _blocks("apache")
(CADDY,) = _blocks("caddy")
SERVICE = "127.0.0.1:8000"
TWO_SERVICES = ("127.0.0.1:8001", "127.0.0.1:8002")

NGINX_CONF = """\
{user}
daemon off;
pid nginx.pid;
error_log error.log;
worker_rlimit_nofile 20000;
events {{ worker_connections 10000; }}
http {{
    access_log access.log;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
{configuration}
}}
"""
APACHE_CONF = """\
ServerRoot /usr/lib/apache2
ServerName localhost
Listen {address}
PidFile {folder}/pid
ErrorLog {folder}/error.log
DefaultRuntimeDir {folder}
{user}
{modules}
{configuration}
"""
APACHE_MODULES = (
    *("mpm_event", "authz_core", "proxy", "proxy_http", "headers", "unique_id", "filter"),
    *("deflate", "brotli", "reqtimeout", "ratelimit", "env", "alias"),
)


def find(program: str) -> str | None:
    return shutil.which(program) or shutil.which(program, path="/usr/sbin")


class Instance:
    """A service with an access log, on a port that is the same after a restart."""

    def __init__(self, artifacts: Path, log: Path, *arguments: str) -> None:
        self._artifacts = artifacts
        self._log = log
        self._arguments = arguments
        self._port = reserve_port()
        self._running = ExitStack()
        self.address = "{}:{}".format(*self._port.getsockname())
        self.start()

    def start(self, *more_options: str) -> None:
        port = self.address.partition(":")[2]
        arguments = ("--port", port, "--log-requests", *self._arguments, *more_options)
        fork = serve_fork(self._artifacts, *arguments, output=self._log)
        self.client, self.process = self._running.enter_context(fork)

    def stop(self) -> int | None:
        """Send SIGTERM, and return the exit status."""
        self.process.terminate()
        self.process.join(30)
        status = self.process.exitcode
        self._running.close()
        return status

    def close(self) -> None:
        self._running.close()
        self._port.close()

    def log(self) -> list[Json]:
        lines, _, _ = self._log.read_text().rpartition("\n")
        return [json.loads(line) for line in lines.splitlines()]

    def wait_for_requests(self) -> None:
        """Wait until the service has answered 20 more requests."""
        count = len(self.log()) + 20
        eventually(lambda: len(self.log()) >= count)

    def log_entry(self, response: httpx.Response) -> Json:
        """Wait for the line of the access log about this response, and return it."""
        request_id = response.headers["x-request-id"]
        eventually(lambda: any(line["id"] == request_id for line in self.log()))
        (line,) = [line for line in self.log() if line["id"] == request_id]
        return line

    def handled(self, response: httpx.Response) -> bool:
        """Return whether the service made this response; wait for the log of a later request."""
        self.log_entry(self.client.get("/healthz"))
        return any(line["id"] == response.headers["x-request-id"] for line in self.log())


def reserve_port() -> socket.socket:
    """Bind a free port, so that only a process that names its number can listen on it."""
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", 0))
    return bound


@contextmanager
def instances(
    artifacts: Path, folder: Path, *arguments: tuple[str, ...]
) -> Iterator[list[Instance]]:
    with ExitStack() as stack:
        services = []
        for number, each in enumerate(arguments):
            services.append(Instance(artifacts, folder / f"requests{number}.log", *each))
            stack.callback(services[-1].close)
        yield services


@contextmanager
def nginx(folder: Path, configuration: str, replacements: dict[str, str]) -> Iterator[httpx.Client]:
    """Run nginx with a configuration in which addresses are replaced; yield a client of nginx."""

    def command(address: str) -> list[str]:
        text = _replace(configuration, {"listen 80;": f"listen {address};", **replacements})
        # The default user cannot read the folder of the test.
        user = "user root;" if os.geteuid() == 0 else ""
        (folder / "nginx.conf").write_text(NGINX_CONF.format(user=user, configuration=text))
        return ["-p", str(folder), "-c", "nginx.conf", "-e", "error.log"]

    with _gateway("nginx", folder, command) as client:
        yield client


@contextmanager
def apache(folder: Path, replacements: dict[str, str]) -> Iterator[httpx.Client]:
    """Run Apache with its configuration, in which the replacements were made."""

    def command(address: str) -> list[str]:
        modules = [f"LoadModule {name}_module modules/mod_{name}.so" for name in APACHE_MODULES]
        text = _replace(APACHE, {"*:80": address, **replacements})
        (folder / "apache.conf").write_text(
            APACHE_CONF.format(
                address=address,
                folder=folder,
                user="User www-data\nGroup www-data" if os.geteuid() == 0 else "",
                modules="\n".join(modules),
                configuration=text,
            )
        )
        return ["-X", "-f", str(folder / "apache.conf")]

    with _gateway("apache2", folder, command) as client:
        yield client


@contextmanager
def caddy(folder: Path, replacements: dict[str, str]) -> Iterator[httpx.Client]:
    """Run Caddy with its configuration, in which the replacements were made."""

    def command(address: str) -> list[str]:
        site = {"www.example.com {": f"http://{address} {{"}
        text = _replace(CADDY, {**site, **replacements})
        (folder / "Caddyfile").write_text(text.replace("{\n", "{\n    admin off\n", 1))
        return ["run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]

    with _gateway("caddy", folder, command) as client:
        yield client


@contextmanager
def prefixed_by(
    name: str, folder: Path, address: str, *, shorten: bool = False
) -> Iterator[httpx.Client]:
    """Run a gateway that publishes a service below /api/, within the documented bounds.

    shorten: wait for slow clients for 1 second and not for 10
    """
    bounds = {"10s": "1s", "header=10 body=10": "header=1 body=1", "Timeout 10\n": "Timeout 1\n"}
    running = {"apache": apache, "caddy": caddy}.get(name)
    text = {"apache": APACHE, "caddy": CADDY}.get(name, BOUNDS + PREFIX)
    replacements = {SERVICE: address}
    if shorten:
        replacements |= {old: new for old, new in bounds.items() if old in text}
    with running(folder, replacements) if running else nginx(folder, text, replacements) as client:
        yield client


def _replace(configuration: str, replacements: dict[str, str]) -> str:
    for old, new in replacements.items():
        assert old in configuration
        configuration = configuration.replace(old, new)
    return configuration


@contextmanager
def _gateway(
    program: str, folder: Path, arguments: Callable[[str], list[str]]
) -> Iterator[httpx.Client]:
    path = find(program)
    if path is None:
        pytest.skip(f"{program} is not installed")
    with reserve_port() as port:
        address = "{}:{}".format(*port.getsockname())
        folder.mkdir()
        environment = os.environ | {"XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
        log = folder / "output.log"
        with (
            log.open("w") as output,
            subprocess.Popen(
                [path, *arguments(address)], env=environment, stdout=output, stderr=output
            ) as process,
        ):
            try:
                eventually(lambda: process.poll() is not None or is_listening(address))
                errors = [path.read_text() for path in folder.glob("*.log")]
                assert process.poll() is None, "\n".join(errors)
                with open_client(f"http://{address}") as client:
                    yield client
            finally:
                process.terminate()


def is_listening(address: str) -> bool:
    host, _, port = address.partition(":")
    with socket.socket() as attempt:
        return attempt.connect_ex((host, int(port))) == 0
