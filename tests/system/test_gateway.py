"""The configurations of docs/gateway.md, run by a real nginx in front of real services."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import httpx
import pytest

from indexer.__main__ import main
from tests.support.running import (
    ROOT,
    Build,
    Json,
    endpoint,
    eventually,
    serve_process,
    service,
    write_lines,
)

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
pytestmark = pytest.mark.skipif(
    NGINX is None and "CI" not in os.environ, reason="nginx is not installed"
)

PAGE = (ROOT / "docs" / "gateway.md").read_text()
PREFIX, CACHE, INSTANCES = re.findall(r"^```nginx\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
CACHE_FOLDER = "/var/cache/nginx/ratecard"
ONE_SERVICE, TWO_SERVICES = ("127.0.0.1:8000",), ("127.0.0.1:8001", "127.0.0.1:8002")

AROUND = """\
{user}
daemon off;
pid nginx.pid;
error_log error.log;
events {{}}
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

ODD_IDS = ("a.b_c~d-e", "...", "~", "-", "0", "a" * 256)


class Instance:
    """A service on a port that it keeps when it is started again, with its log of requests."""

    def __init__(self, artifacts: Path, log: Path, *arguments: str) -> None:
        self._artifacts = artifacts
        self._log = log
        self._arguments = arguments
        self._reserved = reserve()
        self._running = ExitStack()
        self.address = "{}:{}".format(*self._reserved.getsockname())
        self.start()

    def start(self, *more: str) -> None:
        port = self.address.partition(":")[2]
        arguments = ("--port", port, "--log-requests", *self._arguments, *more)
        with self._log.open("a") as log:
            serving = serve_process(self._artifacts, *arguments, stdout=log)
            self.client, self.process = self._running.enter_context(serving)

    def stop(self) -> int:
        """The exit status after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=30)
        self._running.close()
        return status

    def close(self) -> None:
        self._running.close()
        self._reserved.close()

    def log(self) -> list[Json]:
        whole, _, _ = self._log.read_text().rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    def answers_more(self) -> None:
        """Wait until it has answered some more requests."""
        enough = len(self.log()) + 20
        eventually(lambda: len(self.log()) >= enough)

    def line(self, response: httpx.Response) -> Json:
        """What the service logged of the request that was answered so."""
        request_id = response.headers["x-request-id"]
        eventually(lambda: any(line["id"] == request_id for line in self.log()))
        (line,) = [line for line in self.log() if line["id"] == request_id]
        return line

    def was_asked(self, response: httpx.Response) -> bool:
        """Whether the request reached the service: a later one, asked directly, is logged later."""
        self.line(self.client.get("/healthz"))
        return any(line["id"] == response.headers["x-request-id"] for line in self.log())


def reserve() -> socket.socket:
    """A port that the kernel gives to nobody else; who asks for it by its number may listen."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved


@contextmanager
def gateway(folder: Path, configuration: str, replaced: dict[str, str]) -> Iterator[httpx.Client]:
    """Run nginx with this configuration, other addresses in it; yields a client of it."""
    assert NGINX, "nginx is not installed"
    with reserve() as reserved:
        address = "{}:{}".format(*reserved.getsockname())
        for place, other in {"listen 80;": f"listen {address};", **replaced}.items():
            assert configuration.count(place) == 1
            configuration = configuration.replace(place, other)
        user = "user root;" if os.geteuid() == 0 else ""  # or it may not enter the folder of a test
        folder.mkdir()
        (folder / "nginx.conf").write_text(AROUND.format(user=user, configuration=configuration))
        command = [NGINX, "-p", str(folder), "-c", "nginx.conf", "-e", "error.log"]
        with subprocess.Popen(command) as process:
            try:
                eventually(lambda: process.poll() is not None or listens(address))
                assert process.poll() is None, (folder / "error.log").read_text()
                with httpx.Client(base_url=f"http://{address}", timeout=30) as client:
                    yield client
            finally:
                process.terminate()


def listens(address: str) -> bool:
    host, _, port = address.partition(":")
    with socket.socket() as attempt:
        return attempt.connect_ex((host, int(port))) == 0


@contextmanager
def instances(
    artifacts: Path, folder: Path, *arguments: tuple[str, ...]
) -> Iterator[list[Instance]]:
    with ExitStack() as running:
        started = []
        for number, each in enumerate(arguments):
            started.append(Instance(artifacts, folder / f"requests{number}.log", *each))
            running.callback(started[-1].close)
        yield started


Behind = tuple[httpx.Client, Instance]


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifacts of services with ids of odd characters, and one that is worth compressing."""
    folder = tmp_path_factory.mktemp("odd")
    records = [service(name) for name in ODD_IDS] + [service("long", description="word " * 1000)]
    source = write_lines(folder / "services.jsonl", records)
    assert main(["build", source, "--out", str(folder / "artifacts")]) == 0
    return folder / "artifacts"


@pytest.fixture(scope="module")
def prefixed(odd: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    """A client of nginx that publishes a service under /api/, and the service."""
    folder = tmp_path_factory.mktemp("prefixed")
    arguments = ("--root-path", "/api", "--trusted-proxies", "127.0.0.1")
    with (
        instances(odd, folder, arguments) as (one,),
        gateway(folder / "nginx", PREFIX, {ONE_SERVICE[0]: one.address}) as client,
    ):
        yield client, one


@contextmanager
def cached(artifacts: Path, folder: Path, max_age: int) -> Iterator[Behind]:
    """A client of nginx that caches what a service says, and the service."""
    with instances(artifacts, folder, ("--max-age", str(max_age))) as (one,):
        replaced = {ONE_SERVICE[0]: one.address, CACHE_FOLDER: str(folder / "cache")}
        with gateway(folder / "nginx", CACHE, replaced) as client:
            yield client, one


@pytest.fixture(scope="module")
def kept(odd: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    """A cache whose answers are kept for longer than a test takes."""
    with cached(odd, tmp_path_factory.mktemp("kept"), max_age=3600) as behind:
        yield behind


def cache_status(response: httpx.Response) -> str:
    return str(response.headers["x-cache-status"])


def ask_until(
    ask: Callable[[], httpx.Response], is_it: Callable[[httpx.Response], bool]
) -> httpx.Response:
    """The first answer that is as wanted."""
    answers: list[httpx.Response] = []

    def found() -> bool:
        answers[:] = [ask()]
        return is_it(answers[0])

    eventually(found)
    return answers[0]


def test_a_prefix_is_stripped_and_named_by_the_openapi_document(prefixed: Behind) -> None:
    client, one = prefixed
    listed = client.get("/api/v1/services")
    assert listed.json()["total"] == len(ODD_IDS) + 1
    assert one.line(listed)["route"] == "/v1/services"
    assert client.get("/api/openapi.json").json()["servers"] == [{"url": "/api"}]
    assert client.get("/api/readyz").json()["status"] == "ready"
    assert client.get("/api/nowhere").json()["error"]["code"] == "path_not_found"


def test_outside_the_prefix_and_for_metrics_nginx_answers_itself(prefixed: Behind) -> None:
    client, one = prefixed
    for path in ("/v1/services", "/", "/api/metrics", "/api//metrics", "/api/v1/../%6detrics"):
        response = client.get(path)
        assert response.status_code == 404
        assert response.headers["content-type"] == "text/html"
        assert "x-request-id" not in response.headers
    assert one.client.get("/metrics").status_code == 200


@pytest.mark.parametrize("service_id", ODD_IDS)
def test_an_id_of_odd_characters_arrives_unchanged(prefixed: Behind, service_id: str) -> None:
    client, _ = prefixed
    escaped = "".join(f"%{ord(character):02X}" for character in service_id)
    for spelled in (service_id, escaped):
        response = client.get(f"/api/v1/services/{spelled}")
        assert response.json()["service"]["id"] == service_id


@pytest.mark.parametrize(
    "text", ["a b", "ü", "%", "?", "#", '"', "<b>", "a+b", "a:b;c=d", "\\", "٣", "a/b"]
)
def test_odd_characters_of_paths_and_queries_arrive_unchanged(prefixed: Behind, text: str) -> None:
    client, one = prefixed
    for path in (
        f"/v1/services/{quote(text, safe='')}",
        f"/v1/services?limit={quote(text, safe='')}",
    ):
        through, direct = client.get(f"/api{path}"), one.client.get(path)
        assert through.status_code == direct.status_code
        assert through.json() == direct.json()
        assert unquote(one.line(through)["target"]) == unquote(one.line(direct)["target"])


def test_what_nginx_compresses_revalidates_by_its_weak_tag(prefixed: Behind) -> None:
    client, one = prefixed
    path = "/v1/services/long"
    first = client.get(f"/api{path}", headers={"accept-encoding": "gzip"})
    plain = one.client.get(path, headers={"accept-encoding": "identity"})
    assert first.headers["content-encoding"] == "gzip"
    assert first.headers["etag"] == f"W/{plain.headers['etag']}"
    assert first.headers["vary"] == "Accept-Encoding"
    assert first.content == plain.content
    again = client.get(f"/api{path}", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert one.line(again)["status"] == 304


def test_the_request_id_of_the_gateway_is_logged_and_comes_back(prefixed: Behind) -> None:
    client, one = prefixed
    response = client.get("/api/v1/services", headers={"x-request-id": "of-the-client"})
    assert re.fullmatch("[0-9a-f]{32}", response.headers["x-request-id"])
    assert one.line(response)["target"] == "/api/v1/services"


def test_a_forwarded_address_is_believed_of_a_trusted_proxy_only(prefixed: Behind) -> None:
    client, one = prefixed
    spoofed = {"x-forwarded-for": "192.0.2.1"}
    elsewhere = httpx.HTTPTransport(local_address="127.0.0.2")
    with httpx.Client(transport=elsewhere) as other:
        through = other.get(client.base_url.join("/api/healthz"))
        lying_through = other.get(client.base_url.join("/api/healthz"), headers=spoofed)
        lying_past = other.get(one.client.base_url.join("/healthz"), headers=spoofed)
    for response in (through, lying_through, lying_past):
        assert one.line(response)["client"] == "127.0.0.2"


def test_no_forwarded_address_is_believed_unless_a_proxy_is_trusted(kept: Behind) -> None:
    client, one = kept
    spoofed = {"x-forwarded-for": "192.0.2.1"}
    for response in (client.get("/healthz"), one.client.get("/healthz", headers=spoofed)):
        assert one.line(response)["client"] == "127.0.0.1"


def test_head_and_options_pass_the_gateway(prefixed: Behind) -> None:
    client, _ = prefixed
    identity = {"accept-encoding": "identity"}
    get = client.get("/api/v1/services/long", headers=identity)
    head = client.head("/api/v1/services/long", headers=identity)
    assert (head.status_code, head.content) == (200, b"")
    for name in ("etag", "content-length", "cache-control", "vary", "ratecard-snapshot"):
        assert head.headers[name] == get.headers[name]
    preflight = client.options("/api/v1/services", headers={"origin": "https://a.example"})
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == "*"
    refused = client.post("/api/v1/services", json={})
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS")


def test_a_cache_asks_again_when_an_answer_is_old_and_is_told_what_is_new(
    artifacts: Path, build: Build, tmp_path: Path
) -> None:
    assert build([service("same"), service("other")]) == 0
    with cached(artifacts, tmp_path, max_age=1) as (client, one):

        def fetch() -> httpx.Response:
            return client.get("/v1/services/same")

        def listing() -> httpx.Response:
            return client.get("/v1/services")

        miss, before = fetch(), listing()
        assert (cache_status(miss), one.line(miss)["status"]) == ("MISS", 200)
        hit = ask_until(fetch, lambda answer: cache_status(answer) == "HIT")
        assert not one.was_asked(hit)

        assert build([service("same"), service("other", endpoints=[endpoint("0.02")])]) == 0
        current = (artifacts / "CURRENT").read_text().strip()
        eventually(lambda: one.client.get("/readyz").json()["snapshot"] == current)
        after = ask_until(listing, lambda answer: answer.content != before.content)
        assert (cache_status(after), one.line(after)["status"]) == ("EXPIRED", 200)
        assert after.headers["ratecard-snapshot"] == current
        assert after.headers["etag"] != before.headers["etag"]

        same = ask_until(
            fetch, lambda answer: one.was_asked(answer) and one.line(answer)["snapshot"] == current
        )
        assert (cache_status(same), one.line(same)["status"]) == ("REVALIDATED", 304)
        assert miss.content == hit.content == same.content
        assert len({answer.headers["x-request-id"] for answer in (miss, hit, same)}) == 3


def test_a_cache_keeps_codings_apart_and_passes_on_what_the_service_compressed(
    kept: Behind,
) -> None:
    client, one = kept
    path = "/v1/services/long"
    plain = one.client.get(path, headers={"accept-encoding": "identity"}).content
    packed = {"gzip", "gzip, deflate, br, zstd", "GZIP;q=0.5", "br;q=1.0, gzip;q=0.8, *;q=0.1"}
    unpacked = {"", "identity", "br", "zstd", "gzip;q=0", "x-gzip-2", "gzip;q=0.000, *"}
    statuses = []
    for accepted in [*packed, *unpacked] * 2:
        request = client.build_request("GET", path, headers={"accept-encoding": accepted})
        response = client.send(request, stream=True)
        body = b"".join(response.iter_raw())
        statuses.append(cache_status(response))
        if accepted in packed:
            assert response.headers["content-encoding"] == "gzip"
            assert response.headers["etag"].endswith('-gzip"')
            assert gzip.decompress(body) == plain
        else:
            assert "content-encoding" not in response.headers
            assert body == plain
        assert response.headers["vary"] == "Accept-Encoding"
    assert sorted(statuses) == ["HIT"] * (len(statuses) - 2) + ["MISS"] * 2


def test_a_cache_answers_conditions_and_head_by_itself(kept: Behind) -> None:
    client, one = kept
    path = "/v1/services?limit=7"
    first = client.get(path)
    weak = {"if-none-match": f"W/{first.headers['etag']}"}
    again = client.get(path, headers=weak)
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    head = client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == first.headers["content-length"]
    assert not one.was_asked(again)
    assert not one.was_asked(head)
    assert client.options(path).status_code == 204
    assert client.get(path).content == first.content


@pytest.mark.parametrize(
    "path", ["/v1/services?limit=0", "/v1/services/nowhere", "/nowhere", "/healthz", "/readyz"]
)
def test_a_cache_keeps_no_errors_and_nothing_of_the_moment(kept: Behind, path: str) -> None:
    client, one = kept
    for response in (client.get(path), client.get(path)):
        assert cache_status(response) == "MISS"
        assert one.line(response)["status"] == response.status_code
        assert response.headers["cache-control"] == "no-store"


def test_a_cache_hides_metrics(kept: Behind) -> None:
    client, _ = kept
    response = client.get("/metrics")
    assert (response.status_code, response.headers["content-type"]) == (404, "text/html")
    assert "ratecard" not in response.text


def test_a_cache_answers_with_what_it_has_while_the_service_is_down_or_refuses(
    odd: Path, tmp_path: Path
) -> None:
    with cached(odd, tmp_path, max_age=1) as (client, one):

        def fetch() -> httpx.Response:
            return client.get("/v1/services/long")

        def search() -> httpx.Response:
            return client.get("/v1/search/services?q=word")

        fresh, found = fetch(), search()
        assert one.stop() == 0
        stale = ask_until(fetch, lambda answer: cache_status(answer) == "STALE")
        assert (stale.status_code, stale.content) == (200, fresh.content)
        assert stale.headers["x-request-id"] != fresh.headers["x-request-id"]
        never_kept = client.get("/v1/services")
        assert never_kept.status_code == 502
        assert re.fullmatch("[0-9a-f]{32}", never_kept.headers["x-request-id"])

        one.start("--max-lag", "1e-9")
        refused = ask_until(
            search, lambda answer: one.was_asked(answer) and one.line(answer)["status"] == 503
        )
        assert (refused.status_code, refused.content) == (200, found.content)
        assert cache_status(refused) == "STALE"
        back = ask_until(fetch, lambda answer: cache_status(answer) == "REVALIDATED")
        assert back.content == fresh.content


MIXED = (
    "/v1/services",
    "/v1/services/long",
    "/v1/services?limit=2&facets=category",
    "/v1/search/services?q=word",
    "/v1/ecosystem/overview",
    "/readyz",
)


class Clients:
    """Four clients that ask all the time, each by a connection that it keeps."""

    def __init__(self, client: httpx.Client) -> None:
        self._address = client.base_url
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(4)]
        self.failures: list[Any] = []
        self.answered = 0

    @contextmanager
    def asking(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join(timeout=60)

    def are_answered_more(self) -> None:
        """Wait until they have been answered some more times."""
        enough = self.answered + 20
        eventually(lambda: self.answered >= enough)

    def _ask(self) -> None:
        deadline = time.monotonic() + 60
        with httpx.Client(base_url=self._address, timeout=30) as client:
            while not self._stop.is_set() and time.monotonic() < deadline:
                for path in MIXED:
                    try:
                        response = client.get(path)
                    except httpx.HTTPError as error:
                        self.failures.append((path, error))
                        continue
                    if response.status_code != 200:
                        self.failures.append((path, response.status_code, response.text))
                    self.answered += 1
                    self._stop.wait(0.005)  # so that there is time left to start a service


def test_both_instances_are_restarted_without_an_error_that_a_client_sees(
    odd: Path, tmp_path: Path
) -> None:
    with instances(odd, tmp_path, ("--drain", "0.3"), ()) as both:
        addresses = dict(zip(TWO_SERVICES, [one.address for one in both], strict=True))
        with gateway(tmp_path / "nginx", INSTANCES, addresses) as client:
            clients = Clients(client)
            with clients.asking():
                for one in both:
                    one.answers_more()
                    assert one.stop() == 0
                    clients.are_answered_more()
                    one.start()
                    one.answers_more()
            assert clients.failures == []


def test_searches_that_one_instance_refuses_are_answered_by_the_other(
    odd: Path, tmp_path: Path
) -> None:
    with instances(odd, tmp_path, ("--max-lag", "1e-9"), ()) as (busy, idle):
        addresses = dict(zip(TWO_SERVICES, (busy.address, idle.address), strict=True))
        with gateway(tmp_path / "nginx", INSTANCES, addresses) as client:
            response = ask_until(
                lambda: client.get("/v1/search/services?q=word"),
                lambda answer: busy.was_asked(answer) and busy.line(answer)["status"] == 503,
            )
            assert (response.status_code, response.json()["total"]) == (200, 1)
            assert idle.line(response)["status"] == 200
            listed = ask_until(lambda: client.get("/v1/services"), busy.was_asked)
            assert busy.line(listed)["status"] == 200


def test_when_both_refuse_searches_the_client_is_told_and_all_else_is_answered(
    odd: Path, tmp_path: Path
) -> None:
    lagging = ("--max-lag", "1e-9")  # a first search always finds the loop later than that
    with instances(odd, tmp_path, lagging, lagging) as both:
        addresses = dict(zip(TWO_SERVICES, [one.address for one in both], strict=True))
        with gateway(tmp_path / "nginx", INSTANCES, addresses) as client:
            refused, *more = [client.get("/v1/search/services?q=word") for _ in range(4)]
            assert refused.status_code == 503
            assert refused.json()["error"]["code"] == "overloaded"
            assert int(refused.headers["retry-after"]) > 0
            assert {response.status_code for response in more} <= {200, 503}
            assert client.get("/v1/services").status_code == 200
