"""The configurations of docs/gateway.md, run by their gateways in front of the service."""

from __future__ import annotations

import gzip
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import httpx
import pytest

from indexer.__main__ import main
from tests.support.gateways import (
    CACHE,
    INSTANCES,
    PREFIX,
    SERVICE,
    TWO_SERVICES,
    Instance,
    instances,
    nginx,
    prefixed_by,
)
from tests.support.running import (
    Build,
    endpoint,
    eventually,
    open_client,
    service,
    write_lines,
)

CACHE_FOLDER = "/var/cache/nginx/ratecard"
SPECIAL_IDS = ("a.b_c~d-e", "...", "~", "-", "0", "a" * 256)


Proxied = tuple[httpx.Client, Instance]
"""A client of nginx, and the service behind nginx."""


@pytest.fixture(scope="module")
def special_ids(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifacts of services with unusual ids, and of one that is large enough to compress."""
    folder = tmp_path_factory.mktemp("special_ids")
    records = [service(name) for name in SPECIAL_IDS] + [
        service("long", description="word " * 1000)
    ]
    source = write_lines(folder / "services.jsonl", records)
    assert main(["build", source, "--out", str(folder / "artifacts")]) == 0
    return folder / "artifacts"


@pytest.fixture(scope="module", params=["nginx", "apache", "caddy"])
def prefixed(
    request: pytest.FixtureRequest, special_ids: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxied]:
    """A service that a gateway publishes under /api/."""
    folder = tmp_path_factory.mktemp("prefixed")
    with (
        instances(special_ids, folder, ("--root-path", "/api")) as (one,),
        prefixed_by(request.param, folder / "gateway", one.address) as client,
    ):
        yield client, one


@contextmanager
def cached(artifacts: Path, folder: Path, max_age: int) -> Iterator[Proxied]:
    """Run a service behind an nginx that caches its responses."""
    with instances(artifacts, folder, ("--max-age", str(max_age))) as (one,):
        replacements = {SERVICE: one.address, CACHE_FOLDER: str(folder / "cache")}
        with nginx(folder / "nginx", CACHE, replacements) as client:
            yield client, one


@pytest.fixture(scope="module")
def long_cached(special_ids: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    """A service behind an nginx whose cached responses stay fresh for an hour."""
    with cached(special_ids, tmp_path_factory.mktemp("long_cached"), max_age=3600) as proxied:
        yield proxied


def cache_status(response: httpx.Response) -> str:
    return str(response.headers["x-cache-status"])


def fetch_until(
    fetch: Callable[[], httpx.Response], condition: Callable[[httpx.Response], bool]
) -> httpx.Response:
    """Fetch repeatedly, and return the first response that meets a condition."""
    responses: list[httpx.Response] = []

    def is_met() -> bool:
        responses[:] = [fetch()]
        return condition(responses[0])

    eventually(is_met)
    return responses[0]


def test_a_prefix_is_stripped_and_in_the_openapi_document(prefixed: Proxied) -> None:
    client, one = prefixed
    listing = client.get("/api/v1/services")
    assert listing.json()["total"] == len(SPECIAL_IDS) + 1
    assert one.log_entry(listing)["route"] == "/v1/services"
    assert client.get("/api/openapi.json").json()["servers"] == [{"url": "/api"}]
    assert client.get("/api/healthz").json()["status"] == "ok"
    assert client.get("/api/nowhere").json()["error"]["code"] == "path_not_found"


def test_mcp_answers_below_the_prefix(special_ids: Path, tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
    arguments = ("--root-path", "/api", "--mcp")
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    message |= {"params": {"name": "get", "arguments": {"id": "long"}}}
    headers = {"accept": "application/json, text/event-stream"}
    with (
        instances(special_ids, tmp_path, arguments) as (one,),
        nginx(tmp_path / "nginx", PREFIX, {SERVICE: one.address}) as client,
    ):
        response = client.post("/api/mcp", json=message, headers=headers)
        assert response.json()["result"]["structuredContent"]["service"]["id"] == "long"
        entry = one.log_entry(response)
        assert (entry["route"], entry["target"]) == ("/mcp", "/api/mcp")
        preflight = client.options("/api/mcp")
        assert preflight.headers["access-control-allow-methods"] == "POST, OPTIONS"
        assert client.get("/api/mcp").headers["allow"] == "POST, OPTIONS"


def test_ard_answers_below_the_prefix(prefixed: Proxied) -> None:
    client, one = prefixed
    body = {"query": {"text": "one"}, "pageSize": 100}
    response = client.post("/api/ard/search", json=body)
    results = response.json()["results"]
    entry = one.log_entry(response)
    assert (entry["route"], entry["target"]) == ("/ard/search", "/api/ard/search")
    assert entry["query"] == "one"
    assert len(results) == len(SPECIAL_IDS) + 1
    for result in results:
        assert httpx.URL(result["source"]).path == "/api/ard"
        path = f"/api/ard/agents/{quote(result['identifier'], safe='')}"
        assert client.get(path).json()["identifier"] == result["identifier"]
        assert client.get(httpx.URL(result["url"]).path).status_code == 200
    refused = client.get("/api/ard/agents/urn%253Aair%253Aa.example%253Ab")
    assert (refused.status_code, refused.json()["errorCode"]) == (400, "INVALID_ARGUMENT")
    assert client.options("/api/ard/search").headers["allow"] == "POST, OPTIONS"
    assert client.get("/api/ard/search").headers["allow"] == "POST, OPTIONS"
    manifest = client.get("/.well-known/ard.json", follow_redirects=True).json()
    assert httpx.URL(manifest["entries"][0]["url"]).path == "/api/ard"


def test_paths_outside_the_prefix_and_metrics_do_not_reach_the_service(prefixed: Proxied) -> None:
    client, one = prefixed
    for path in (
        "/v1/services",
        "/",
        "/api/metrics",
        "/api//metrics",
        "/api/v1/../%6detrics",
        "/api/readyz",
    ):
        response = client.get(path)
        assert response.status_code == 404 or not path.startswith("/api")
        assert "x-request-id" not in response.headers
        assert "ratecard" not in response.text
    assert one.client.get("/metrics").status_code == 200


@pytest.mark.parametrize("service_id", SPECIAL_IDS)
def test_an_unusual_id_reaches_the_service_unchanged(prefixed: Proxied, service_id: str) -> None:
    client, _ = prefixed
    escaped = "".join(f"%{ord(character):02X}" for character in service_id)
    for encoded in (service_id, escaped):
        response = client.get(f"/api/v1/services/{encoded}")
        assert response.json()["service"]["id"] == service_id


@pytest.mark.parametrize(
    "text", ["a b", "ü", "%", "?", "#", '"', "<b>", "a+b", "a:b;c=d", "\\", "٣", "a/b"]
)
def test_special_characters_reach_the_service_unchanged(prefixed: Proxied, text: str) -> None:
    client, one = prefixed
    for path in (
        f"/v1/services/{quote(text, safe='')}",
        f"/v1/services?limit={quote(text, safe='')}",
    ):
        proxied, direct = client.get(f"/api{path}"), one.client.get(path)
        assert proxied.status_code == direct.status_code
        assert proxied.json() == direct.json()
        assert unquote(one.log_entry(proxied)["target"]) == unquote(one.log_entry(direct)["target"])


def test_a_compressed_response_revalidates_by_its_tag(prefixed: Proxied) -> None:
    client, one = prefixed
    path = "/v1/services/long"
    first = client.get(f"/api{path}", headers={"accept-encoding": "gzip"})
    plain = one.client.get(path, headers={"accept-encoding": "identity"})
    assert first.headers["content-encoding"] == "gzip"
    assert plain.headers["etag"][1:-1] in first.headers["etag"]  # weakened, or with the coding
    assert first.headers["vary"] == "Accept-Encoding"
    assert first.content == plain.content
    again = client.get(f"/api{path}", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert one.log_entry(again)["status"] == 304


def test_the_request_id_of_the_gateway_is_logged_and_echoed(prefixed: Proxied) -> None:
    client, one = prefixed
    response = client.get("/api/v1/services")
    assert re.fullmatch(r"[\w-]{24,36}", response.headers["x-request-id"])
    assert one.log_entry(response)["target"] == "/api/v1/services"


def test_x_forwarded_for_is_used_only_from_a_trusted_proxy(prefixed: Proxied) -> None:
    client, one = prefixed
    spoofed = {"x-forwarded-for": "192.0.2.1"}
    transport = httpx.HTTPTransport(local_address="127.0.0.2")
    with httpx.Client(transport=transport) as other:
        proxied = other.get(client.base_url.join("/api/healthz"))
        spoofed_via_proxy = other.get(client.base_url.join("/api/healthz"), headers=spoofed)
        spoofed_directly = other.get(one.client.base_url.join("/healthz"), headers=spoofed)
    for response in (proxied, spoofed_via_proxy, spoofed_directly):
        assert one.log_entry(response)["client"] == "127.0.0.2"


def test_head_and_options_pass_the_nginx(prefixed: Proxied) -> None:
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
    rejected = client.post("/api/v1/services", json={})
    assert (rejected.status_code, rejected.headers["allow"]) == (405, "GET, HEAD, OPTIONS")


def test_the_cache_revalidates_expired_responses(
    artifacts: Path, build: Build, tmp_path: Path
) -> None:
    assert build([service("same"), service("other")]) == 0
    with cached(artifacts, tmp_path, max_age=1) as (client, one):

        def fetch() -> httpx.Response:
            return client.get("/v1/services/same")

        def listing() -> httpx.Response:
            return client.get("/v1/services")

        miss, before = fetch(), listing()
        assert (cache_status(miss), one.log_entry(miss)["status"]) == ("MISS", 200)
        hit = fetch_until(fetch, lambda response: cache_status(response) == "HIT")
        assert not one.handled(hit)

        assert build([service("same"), service("other", endpoints=[endpoint("0.02")])]) == 0
        current = (artifacts / "CURRENT").read_text().strip()
        eventually(lambda: one.client.get("/readyz").json()["snapshot"] == current)
        after = fetch_until(listing, lambda response: response.content != before.content)
        assert (cache_status(after), one.log_entry(after)["status"]) == ("EXPIRED", 200)
        assert after.headers["ratecard-snapshot"] == current
        assert after.headers["etag"] != before.headers["etag"]

        same = fetch_until(
            fetch,
            lambda response: (
                one.handled(response) and one.log_entry(response)["snapshot"] == current
            ),
        )
        assert (cache_status(same), one.log_entry(same)["status"]) == ("REVALIDATED", 304)
        assert miss.content == hit.content == same.content
        assert len({response.headers["x-request-id"] for response in (miss, hit, same)}) == 3


def test_the_cache_stores_each_content_coding_separately(
    long_cached: Proxied,
) -> None:
    client, one = long_cached
    path = "/v1/services/long"
    plain = one.client.get(path, headers={"accept-encoding": "identity"}).content
    accepts_gzip = {
        "gzip",
        "gzip, deflate, br, zstd",
        "GZIP;q=0.5",
        "br;q=1.0, gzip;q=0.8, *;q=0.1",
    }
    accepts_no_gzip = {"", "identity", "br", "zstd", "gzip;q=0", "x-gzip-2", "gzip;q=0.000, *"}
    statuses = []
    for accepted in [*accepts_gzip, *accepts_no_gzip] * 2:
        request = client.build_request("GET", path, headers={"accept-encoding": accepted})
        response = client.send(request, stream=True)
        body = b"".join(response.iter_raw())
        statuses.append(cache_status(response))
        if accepted in accepts_gzip:
            assert response.headers["content-encoding"] == "gzip"
            assert response.headers["etag"].endswith('.gzip"')
            assert gzip.decompress(body) == plain
        else:
            assert "content-encoding" not in response.headers
            assert body == plain
        assert response.headers["vary"] == "Accept-Encoding"
    assert sorted(statuses) == ["HIT"] * (len(statuses) - 2) + ["MISS"] * 2


def test_the_cache_answers_conditional_and_head_requests(long_cached: Proxied) -> None:
    client, one = long_cached
    path = "/v1/services?limit=7"
    first = client.get(path)
    weak = {"if-none-match": f"W/{first.headers['etag']}"}
    again = client.get(path, headers=weak)
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    head = client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == first.headers["content-length"]
    assert not one.handled(again)
    assert not one.handled(head)
    assert client.options(path).status_code == 204
    assert client.get(path).content == first.content


@pytest.mark.parametrize(
    "path", ["/v1/services?limit=0", "/v1/services/nowhere", "/nowhere", "/healthz"]
)
def test_the_cache_stores_no_errors_and_no_health_checks(long_cached: Proxied, path: str) -> None:
    client, one = long_cached
    for response in (client.get(path), client.get(path)):
        assert cache_status(response) == "MISS"
        assert one.log_entry(response)["status"] == response.status_code
        assert response.headers["cache-control"] == "no-store"


def test_the_cache_does_not_expose_metrics(long_cached: Proxied) -> None:
    client, _ = long_cached
    response = client.get("/metrics")
    assert (response.status_code, response.headers["content-type"]) == (404, "text/html")
    assert "ratecard" not in response.text


def test_the_cache_serves_stale_responses_while_the_service_is_down_or_overloaded(
    special_ids: Path, tmp_path: Path
) -> None:
    with cached(special_ids, tmp_path, max_age=1) as (client, one):

        def fetch() -> httpx.Response:
            return client.get("/v1/services/long")

        def search() -> httpx.Response:
            return client.get("/v1/search/services?q=word")

        fresh, fresh_search = fetch(), search()
        assert one.stop() == 0
        stale = fetch_until(fetch, lambda response: cache_status(response) == "STALE")
        assert (stale.status_code, stale.content) == (200, fresh.content)
        assert stale.headers["x-request-id"] != fresh.headers["x-request-id"]
        uncached = client.get("/v1/services")
        assert uncached.status_code == 502
        assert re.fullmatch("[0-9a-f]{32}", uncached.headers["x-request-id"])

        one.start("--max-lag", "1e-9")
        shed = fetch_until(
            search,
            lambda response: one.handled(response) and one.log_entry(response)["status"] == 503,
        )
        assert (shed.status_code, shed.content) == (200, fresh_search.content)
        assert cache_status(shed) == "STALE"
        revalidated = fetch_until(fetch, lambda response: cache_status(response) == "REVALIDATED")
        assert revalidated.content == fresh.content


MIXED = (
    "/v1/services",
    "/v1/services/long",
    "/v1/services?limit=2&facets=category",
    "/v1/search/services?q=word",
    "/v1/ecosystem/overview",
    "/healthz",
)


class Clients:
    """Four clients that send requests continuously, each over a keep-alive connection."""

    def __init__(self, client: httpx.Client) -> None:
        self._address = client.base_url
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(4)]
        self.failures: list[Any] = []
        self.responses = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join(timeout=60)

    def wait_for_responses(self) -> None:
        """Wait until the clients have received 20 more responses."""
        count = self.responses + 20
        eventually(lambda: self.responses >= count)

    def _run(self) -> None:
        deadline = time.monotonic() + 60
        with open_client(self._address) as client:
            while not self._stop.is_set() and time.monotonic() < deadline:
                for path in MIXED:
                    try:
                        response = client.get(path)
                    except httpx.HTTPError as error:
                        self.failures.append((path, error))
                        continue
                    if response.status_code != 200:
                        self.failures.append((path, response.status_code, response.text))
                    self.responses += 1
                    self._stop.wait(0.005)  # leave CPU time to the starting service


def test_restarting_both_instances_in_turn_causes_no_client_errors(
    special_ids: Path, tmp_path: Path
) -> None:
    with instances(special_ids, tmp_path, (), ()) as both:
        addresses = dict(zip(TWO_SERVICES, [one.address for one in both], strict=True))
        with nginx(tmp_path / "nginx", INSTANCES, addresses) as client:
            clients = Clients(client)
            with clients.running():
                for one in both:
                    one.wait_for_requests()
                    assert one.stop() == 0
                    clients.wait_for_responses()
                    one.start()
                    one.wait_for_requests()
            assert clients.failures == []


def test_searches_that_one_instance_sheds_are_retried_on_the_other(
    special_ids: Path, tmp_path: Path
) -> None:
    with instances(special_ids, tmp_path, ("--max-lag", "1e-9"), ()) as (busy, idle):
        addresses = dict(zip(TWO_SERVICES, (busy.address, idle.address), strict=True))
        with nginx(tmp_path / "nginx", INSTANCES, addresses) as client:
            response = fetch_until(
                lambda: client.get("/v1/search/services?q=word"),
                lambda response: (
                    busy.handled(response) and busy.log_entry(response)["status"] == 503
                ),
            )
            assert (response.status_code, response.json()["total"]) == (200, 1)
            assert idle.log_entry(response)["status"] == 200
            listing = fetch_until(lambda: client.get("/v1/services"), busy.handled)
            assert busy.log_entry(listing)["status"] == 200


def test_when_both_instances_shed_searches_only_searches_are_503(
    special_ids: Path, tmp_path: Path
) -> None:
    lagging = ("--max-lag", "1e-9")  # any lag exceeds this limit
    with instances(special_ids, tmp_path, lagging, lagging) as both:
        addresses = dict(zip(TWO_SERVICES, [one.address for one in both], strict=True))
        with nginx(tmp_path / "nginx", INSTANCES, addresses) as client:
            first, *others = [client.get("/v1/search/services?q=word") for _ in range(4)]
            assert first.status_code == 503
            assert first.json()["error"]["code"] == "overloaded"
            assert int(first.headers["retry-after"]) > 0
            assert {response.status_code for response in others} <= {200, 503}
            assert client.get("/v1/services").status_code == 200
