"""`/mcp` of the service: methods, bounds, hosts, counting, lifespans, snapshots and pages."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from mcp import Client

from service.api.routes import MAX_BODY
from service.app import create_app
from service.settings import Settings, parse_hosts
from tests.support.artifacts import current
from tests.support.clients.mcp import ACCEPT, ERAS, call, headers_of, message_of, post
from tests.support.processes import run_service
from tests.support.running import Build, Json, endpoint, eventually, in_process, serve, service

INTERNAL_ERROR = -32603
TOOL_CALL: Json = {"name": "search_endpoints", "arguments": {"query": "tide"}}


@pytest.fixture(scope="module")
def served(sample: Path) -> Iterator[httpx.Client]:
    """A client of a service that serves the sample catalogue, also by MCP."""
    with serve(sample, "--mcp") as client:
        yield client


def mounted(artifacts: Path) -> Starlette:
    return create_app(Settings(artifacts=str(artifacts), mcp=True, mcp_hosts="a.example"))


def post_to(client: Any, path: str = "/mcp", headers: dict[str, str] | None = None) -> Any:
    """Send a call of a tool by a client of either kind."""
    return client.post(
        path,
        json=message_of("stateless", "tools/call", **TOOL_CALL),
        headers=headers_of("stateless", "tools/call", TOOL_CALL["name"]) | (headers or {}),
    )


@pytest.mark.parametrize("era", ERAS)
def test_the_sdk_client_walks_and_calls_over_http(served: httpx.Client, era: str) -> None:
    async def use() -> None:
        async with Client(f"{served.base_url}/mcp", mode=ERAS[era].mode) as client:
            assert client.protocol_version == ERAS[era].version
            assert len((await client.list_tools()).tools) == 5
            found = await client.call_tool("search_endpoints", {"query": "tide table"})
            first = found.structured_content["endpoints"][0]["id"]
            how = await client.call_tool("how_to_call", {"endpoint": first})
            assert how.structured_content["curl"].startswith("curl -i")
            bad = await client.call_tool("search_endpoints", {})
            assert bad.is_error
        async with Client(f"{served.base_url}/mcp") as client:
            assert client.protocol_version == ERAS["stateless"].version

    asyncio.run(use())


@pytest.mark.parametrize("era", ERAS)
def test_an_answer_is_of_the_snapshot_that_its_header_names_and_is_never_cached(
    served: httpx.Client, era: str
) -> None:
    for _ in range(2):
        response = post(served, "tools/call", era=era, **TOOL_CALL)
        assert response.status_code == 200
        assert response.headers["content-type"] == "application/json"
        assert "etag" not in response.headers
        assert "mcp-session-id" not in response.headers
        meta = response.json()["result"]["_meta"]
        assert meta["ratecard/snapshot"] == response.headers["ratecard-snapshot"]


def test_the_preflight_allows_post_and_the_headers_of_the_protocol(served: httpx.Client) -> None:
    asked = {
        "origin": "http://localhost:6274",
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type, mcp-protocol-version, mcp-method",
    }
    response = served.options("/mcp", headers=asked)
    assert response.status_code == 204
    allowed = response.headers["access-control-allow-headers"].lower()
    names = ("protocol-version", "session-id", "method", "name")
    assert all(name in allowed for name in ("content-type", *(f"mcp-{name}" for name in names)))
    assert response.headers["access-control-allow-methods"] == "POST, OPTIONS"
    assert response.headers["access-control-allow-origin"] == "*"
    other = served.options("/v1/services")
    assert other.headers["access-control-allow-methods"] == "GET, HEAD, OPTIONS"
    answer = post(served, "tools/list", headers={"origin": "http://localhost:6274"})
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "*"


def test_a_slash_at_the_end_of_the_address_changes_no_answer(served: httpx.Client) -> None:
    answers = [post(served, "tools/list", path=path) for path in ("/mcp", "/mcp/")]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].content == answers[1].content


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH"])
def test_other_methods_are_405_with_those_that_are_allowed(
    served: httpx.Client, method: str, path: str
) -> None:
    response = served.request(method, path, headers={"accept": "text/event-stream, text/html"})
    assert (response.status_code, response.headers["allow"]) == (405, "POST, OPTIONS")
    if method != "HEAD":
        assert response.json()["error"]["code"] == "method_not_allowed"


def test_only_the_hosts_of_the_setting_and_pages_from_them_are_answered(sample: Path) -> None:
    hosts = "MCP.example.com,[::1]"
    app = create_app(Settings(artifacts=str(sample), mcp=True, mcp_hosts=hosts))
    own = {"host": "mcp.example.com"}
    answered = [{"host": host} for host in ("mcp.example.com:8443", "[::1]:8000")]
    answered += [own, own | {"origin": "https://mcp.example.com"}]
    others = ("127.0.0.1", "localhost:8000", "evil.example", "mcp.example.com.evil.example")
    with in_process(app) as client:
        for headers in answered:
            assert post_to(client, headers=headers).status_code == 200
        for host in others:
            assert post_to(client, headers={"host": host}).status_code == 421
        evil = own | {"origin": "https://evil.example"}
        assert post_to(client, headers=evil).status_code == 403
        listing = client.get("/v1/services", headers={"host": "evil.example"})
        assert listing.status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        *(
            "*",
            "*.a.example",
            "",
            "a b",
            "https://a.example",
            "a.example/mcp",
            "a.example:",
            "é.fr",
        ),
        *("a.example:123456", "::1", "[::1", "a..b"),
    ],
)
def test_what_is_no_host_is_refused_with_what_to_write(host: str) -> None:
    for hosts in (host, f"a.example,{host}"):
        with pytest.raises(ValueError, match=r"is no host; write names, ") as refusal:
            Settings(mcp_hosts=hosts)
        assert f"`{host.lower()}`" in str(refusal.value)
        with pytest.raises(ValueError, match=r"^RATECARD_MCP_HOSTS: `"):
            Settings.from_environment({"RATECARD_MCP_HOSTS": hosts})


def test_hosts_are_names_and_addresses_with_or_without_a_port() -> None:
    hosts = "A.example, localhost:8000,10.0.0.1,10.0.0.1:80,[::1],[2001:DB8::1]:8443,my_host"
    assert parse_hosts(hosts) == hosts.lower().replace(" ", "").split(",")


def test_a_body_has_a_limit(served: httpx.Client) -> None:
    headers = {"content-type": "application/json", "accept": ACCEPT}
    padded = json.dumps(message_of("stateless", "tools/list")).ljust(MAX_BODY)
    stateless = headers_of("stateless", "tools/list") | headers
    assert served.post("/mcp", content=padded, headers=stateless).status_code == 200

    def chunks() -> Iterator[bytes]:
        for _ in range(100):
            yield bytes(MAX_BODY)

    for content in (padded + " ", bytes(20 << 20), chunks()):
        response = served.post("/mcp", content=content, headers=headers)
        assert response.status_code == 413
    assert served.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b"null", 400),
        (b"[]", 400),
        (b"{}", 400),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', 200),
        (b'{"jsonrpc":"2.0","id":1,"method":"no/such"}', 200),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}', 200),
        (b'{"jsonrpc":"2.0","method":"notifications/initialized"}', 202),
        (b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}', 202),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', 200),
        (b"[" * 30_000, 400),
    ],
)
def test_any_body_has_an_answer_of_the_protocol(
    served: httpx.Client, content: bytes, status: int
) -> None:
    headers = {"content-type": "application/json", "accept": ACCEPT}
    response = served.post("/mcp", content=content, headers=headers)
    assert response.status_code == status
    if status != 202:
        body = response.json()
        assert body["jsonrpc"] == "2.0"
        assert ("error" in body) == (b'"ping"' not in content)
        assert "Traceback" not in response.text
        assert "/site-packages/" not in response.text


@pytest.mark.parametrize("name", ["search_endpoints", "search_services", "get", "how_to_call"])
def test_a_lone_surrogate_is_a_tool_error_with_the_reason(served: httpx.Client, name: str) -> None:
    field = {"get": "id", "how_to_call": "endpoint"}.get(name, "query")
    arguments = {field: "https://\ud800.example/"}
    message = message_of("stateless", "tools/call", name=name, arguments=arguments)
    headers = headers_of("stateless", "tools/call", name) | {"content-type": "application/json"}
    response = served.post("/mcp", content=json.dumps(message), headers=headers)
    result = response.json()["result"]
    assert result["isError"]
    assert result["content"][0]["text"].startswith(f"{field}: Input should be a valid string")


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("prompts/get", {"name": "\ud800"}),
        ("prompts/get", {"name": "find_and_call", "arguments": {"task": "\ud800"}}),
    ],
)
def test_a_lone_surrogate_is_a_fault_of_the_client(
    served: httpx.Client, method: str, params: Json
) -> None:
    message = message_of("stateless", method, **params)
    headers = headers_of("stateless", method, "x") | {"content-type": "application/json"}
    response = served.post("/mcp", content=json.dumps(message), headers=headers)
    assert response.status_code == 400
    assert response.json()["error"]["code"] != INTERNAL_ERROR


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"origin": "https://evil.example"}, 403),
        ({"content-type": "text/plain"}, 400),
        ({"accept": "image/png"}, 406),
        ({"mcp-protocol-version": "2099-01-01"}, 400),
        ({"mcp-method": "tools/list"}, 400),
        ({"mcp-name": "get"}, 400),
    ],
)
def test_refused_requests_have_a_status_and_repeat_nothing(
    served: httpx.Client, headers: dict[str, str], status: int
) -> None:
    response = post(served, "tools/call", headers=headers, **TOOL_CALL)
    assert response.status_code == status
    assert "evil" not in response.text


def test_calls_are_counted_and_logged_by_route(sample: Path) -> None:
    with run_service(sample, "--mcp", "--log-requests") as server, server.client() as client:
        assert call(client, "search_endpoints", query="tide")["structuredContent"]["total"]
        assert post(client, "tools/list", headers={"host": "evil.example"}).status_code == 421
        client.post("/mcp", content=bytes(MAX_BODY + 1))
        metrics = client.get("/metrics").text
        for status in (200, 413, 421):
            labels = f'{{cache="none",route="/mcp",status="{status}"}}'
            assert f"ratecard_request_seconds_count{labels} 1.0" in metrics
        eventually(lambda: len(server.requests) >= 3)
        entry = json.loads(server.requests[0])
        own = entry["method"], entry["target"], entry["route"], entry["query"]
        assert own == ("POST", "/mcp", "/mcp", "tide")
        assert entry["status"] == 200
        assert entry["snapshot"] == current(sample)
        assert "evil" not in server.log


def test_calls_are_shed_as_searches_are(sample: Path) -> None:
    app = create_app(Settings(artifacts=str(sample), mcp=True, mcp_hosts="a.example", max_lag=1e-9))
    with in_process(app) as client:
        refused = post_to(client)  # any lag exceeds the limit
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "overloaded"
        assert int(refused.headers["retry-after"]) > 0


def test_without_a_snapshot_calls_are_503_until_one_is_published(
    artifacts: Path, build: Build
) -> None:
    with serve(artifacts, "--mcp") as client:
        response = post(client, "tools/call", **TOOL_CALL)
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "snapshot_missing"
        assert int(response.headers["retry-after"]) > 0
        assert build([service("a")]) == 0
        eventually(lambda: post(client, "tools/call", **TOOL_CALL).status_code == 200)


def test_a_new_snapshot_is_taken_up_and_a_walk_across_it_is_told(
    artifacts: Path, build: Build
) -> None:
    def records(count: int) -> list[Json]:
        return [
            service(f"s{number}", endpoints=[endpoint() | {"description": "tide"}])
            for number in range(count)
        ]

    assert build(records(9)) == 0
    with serve(artifacts, "--mcp") as client:
        page = call(client, "search_endpoints", query="tide", limit=2)["structuredContent"]
        assert build(records(12)) == 0
        published = current(artifacts)

        def is_swapped() -> bool:
            result = call(client, "catalogue")
            return bool(result["structuredContent"]["snapshot"] == published)

        eventually(is_swapped)
        cursor = page["cursor"]
        result = call(client, "search_endpoints", query="tide", limit=2, cursor=cursor)
        assert result["isError"]
        assert "the catalogue has changed" in result["content"][0]["text"]
        again = call(client, "search_endpoints", query="tide", limit=2)["structuredContent"]
        assert again["total"] > page["total"]


def test_mounted_without_a_lifespan_it_answers_in_any_event_loop(sample: Path) -> None:
    outer = Starlette(routes=[Mount("/shop", mounted(sample))])

    async def check() -> None:
        transport = httpx.ASGITransport(outer)
        async with httpx.AsyncClient(transport=transport, base_url="http://a.example") as client:
            responses = await asyncio.gather(*(post_to(client, "/shop/mcp") for _ in range(5)))
            assert [response.status_code for response in responses] == [200] * 5
            assert (await client.get("/shop/mcp")).headers["allow"] == "POST, OPTIONS"
            preflight = await client.options("/shop/mcp")
            assert preflight.headers["access-control-allow-methods"] == "POST, OPTIONS"

    for _ in range(2):  # in two event loops
        asyncio.run(check())


def test_a_client_that_leaves_does_not_disturb_others(sample: Path) -> None:
    async def leave(port: int) -> None:
        headers = {
            "host": "127.0.0.1",
            "content-length": "1000",
            "content-type": "application/json",
        }
        fields = (headers | {"accept": ACCEPT}).items()
        head = "".join(f"{name}: {value}\r\n" for name, value in fields)
        async with AsyncExitStack() as stack:
            for _ in range(20):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                stack.callback(writer.close)
                writer.write(f"POST /mcp HTTP/1.1\r\n{head}\r\n{{".encode())
                await writer.drain()

    with run_service(sample, "--mcp") as server:
        asyncio.run(leave(server.port))
        with server.client() as client:
            assert call(client, "search_endpoints", query="tide")["structuredContent"]["total"]
            eventually(lambda: "ratecard_requests_in_flight 1.0\n" in client.get("/metrics").text)
        assert "Traceback" not in server.log


def test_the_pages_and_llms_txt_say_how_to_add_it(
    served: httpx.Client, client: httpx.Client
) -> None:
    assert "<code>/mcp</code>" in served.get("/").text
    text = served.get("/llms.txt").text
    assert "claude mcp add --transport http ratecard" in text
    assert text.count("\n") < 66
    assert max(map(len, text.splitlines())) <= 100
    for path in ("/", "/llms.txt"):
        assert "MCP" not in client.get(path).text


def test_without_the_setting_the_path_is_not_found(client: httpx.Client) -> None:
    response: Any = client.post("/mcp", json={})
    assert (response.status_code, response.json()["error"]["code"]) == (404, "path_not_found")
    assert client.options("/mcp").status_code == 404


def test_the_logging_of_an_embedding_application_is_left_alone(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    level = root.level
    mounted(sample)
    assert (root.level, root.handlers) == (level, [])
