"""The registry of Agentic Resource Discovery: searches, entries, bounds and errors."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.routing import Mount

from service.api.routes import MAX_BODY
from service.app import create_app, served_snapshot
from service.conditions import Filters
from service.engines.engine import Answer, Search
from service.settings import Settings
from tests.support.clients.published import CLIENTS, skip_without
from tests.support.running import Build, Json, eventually, in_process, serve, service

URN = re.compile(r"urn:air:([a-zA-Z0-9.-]+)(?::([a-zA-Z0-9._:-]+))?:([a-zA-Z0-9._-]+)")
"""The pattern of the official conformance tool."""
QUERY: Json = {"query": {"text": "weather forecast"}}
TYPE = "application/openapi+json"
VALUES = st.none() | st.booleans() | st.floats() | st.text() | st.integers()
ODD = VALUES | st.lists(VALUES) | st.dictionaries(st.text(), VALUES)
KEYS = st.sampled_from(["type", "tags", "metadata.alive", "metadata.maxPrice"]) | st.text()
SENT = {"text": st.text(), "filter": st.dictionaries(KEYS, ODD) | ODD, "@context": ODD}
BODIES = st.fixed_dictionaries(
    {"query": st.fixed_dictionaries({}, optional=SENT) | ODD},
    optional={"federation": ODD, "pageSize": ODD, "pageToken": ODD, "more": ODD},
)


@pytest.fixture(scope="module")
def named(sample: Path) -> Iterator[httpx.Client]:
    """A client in this process of a catalogue with a public name and two neighbours."""
    registries = "https://finder.example/search, http://other.example:8080"
    hosts = "localhost,catalogue.example"
    settings = Settings(
        artifacts=str(sample), mcp_hosts=hosts, ard_registries=registries, max_lag=0
    )
    with in_process(create_app(settings)) as client:
        yield client


def search(client: httpx.Client, text: str = "weather forecast", **members: Any) -> Json:
    """Return the answer of a search; `filter` is a member of its query."""
    body = {"query": {"text": text, "filter": members.pop("filter", {})}} | members
    response = client.post("/ard/search", json=body)
    assert response.status_code == 200, response.text
    answer: Json = response.json()
    return answer


def error(response: httpx.Response, status: int = 400) -> str:
    """Return the message of an error, after checking its shape."""
    codes = {404: "NOT_FOUND", 503: "INTERNAL_ERROR"}
    assert response.status_code == status, response.text
    body: Json = response.json()
    assert body.keys() == {"errorCode", "message"}
    assert body["errorCode"] == codes.get(status, "INVALID_ARGUMENT")
    message: str = body["message"]
    return message


def send(
    client: httpx.Client, body: bytes | str, media_type: str | None = "application/json"
) -> Any:
    headers = {} if media_type is None else {"content-type": media_type}
    return client.post("/ard/search", content=body, headers=headers)


def ids(answer: Json) -> list[str]:
    return [each["identifier"].rpartition(":")[2] for each in answer["results"]]


def test_the_requests_of_the_conformance_tool_are_answered_as_it_expects(
    client: httpx.Client,
) -> None:
    """Send and check as `conformance-test registry` and `manifest` of version 0.91 do."""
    assert client.get("/ard/agents").status_code in {404, 501}
    assert client.post("/ard/explore", json=QUERY).status_code in {404, 501}
    only = {"type": ["application/mcp-server-card+json"]}
    assert search(client, filter=only, federation="none", pageSize=2)["results"] == []
    results = search(client, federation="none", pageSize=2)["results"]
    assert len(results) == 2
    for result in results:
        assert type(result["score"]) is int
        assert 0 <= result["score"] <= 100
        assert result["source"] == f"{client.base_url}/ard"
        assert URN.fullmatch(result["identifier"])
    wanted = results[0]["identifier"]
    entry = client.get(f"/ard/agents/{quote(wanted, safe='')}").json()
    assert entry["identifier"] == wanted
    assert entry["displayName"]
    assert entry["type"] == TYPE
    assert "url" in entry
    assert not {"data", "score", "source"} & entry.keys()
    unknown = quote("urn:air:ard-conformance.invalid:probe:not-found", safe="")
    error(client.get(f"/ard/agents/{unknown}"), 404)
    error(client.get("/ard/agents/not-a-valid-ard-urn"), 400)
    manifest = client.get("/.well-known/ard.json").json()
    for entry in manifest["entries"]:
        assert URN.fullmatch(entry["identifier"])
        assert entry["displayName"]
        assert entry["type"] == "application/ai-registry+json"
        assert entry["url"] == f"{client.base_url}/ard"
        assert 2 <= len(entry["representativeQueries"]) <= 5


def test_the_published_client_prints_the_results_of_a_search(client: httpx.Client) -> None:
    program = CLIENTS / "bin/hf-discover"
    skip_without(program)
    command: list[str | Path] = [
        program,
        "search",
        "--registry-url",
        f"{client.base_url}/ard",
        "tide tables",
        "--json",
    ]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout) == search(client, "tide tables")


def test_an_entry_has_price_networks_and_the_openapi_document_of_its_service(
    client: httpx.Client,
) -> None:
    first = search(client, "tidewatch")["results"][0]
    record = client.get("/v1/services/tidewatch-example").json()["service"]
    assert first["score"] == 100
    assert first["displayName"] == record["name"]
    assert first["description"] == record["description"]
    assert first["tags"] == record["tags"]
    assert first["metadata"] == {
        "category": record["category"],
        "networks": record["networks"],
        "priceSummary": record["priceSummary"],
        "endpointCount": len(record["endpoints"]),
    }
    document = client.get(first["url"]).json()
    assert document["x-ratecard"]["service"] == "tidewatch-example"
    entry = client.get(f"/ard/agents/{first['identifier']}").json()
    assert entry == {key: first[key] for key in first.keys() - {"score", "source"}}


@pytest.mark.parametrize(
    ("conditions", "parameters"),
    [
        ({}, {}),
        ({"tags": ["weather", "marine"]}, {"tag": ["weather", "marine"]}),
        ({"metadata.category": "Weather"}, {"category": "Weather"}),
        ({"metadata.networks": ["BASE"]}, {"network": "base"}),
        ({"metadata.network": "solana", "type": TYPE}, {"network": "solana"}),
        ({"metadata.maxPrice": 0.0005}, {"maxPrice": "0.0005"}),
        ({"metadata.maxPrice": [1e-05]}, {"maxPrice": "0.00001"}),
        ({"metadata.maxPrice": "1", "tags": "weather"}, {"maxPrice": "1", "tag": "weather"}),
        ({"metadata.enriched": True, "publisher": "x.example"}, None),
        ({"metadata.enriched": True, "publisher": "ratecard.localhost"}, {"enriched": "true"}),
        ({"type": ["application/a2a-agent-card+json", TYPE]}, {}),
    ],
)
def test_filters_find_what_the_parameters_of_a_search_find(
    client: httpx.Client, conditions: Json, parameters: Json | None
) -> None:
    found = ids(search(client, filter=conditions, pageSize=100))
    if parameters is None:
        assert found == []
        return
    query: Json = {"q": "weather forecast", "limit": 100, "endpoints": "none"} | parameters
    services = client.get("/v1/search/services", params=query).json()["services"]
    assert found == [each["id"] for each in services]


def test_pages_follow_their_tokens_and_have_every_match_once_with_falling_scores(
    client: httpx.Client,
) -> None:
    whole = search(client, "data", filter={"metadata.maxPrice": 1}, pageSize=100)["results"]
    walked: list[Json] = []
    more: Json = {}
    while not walked or more:
        page = search(client, "data", filter={"metadata.maxPrice": 1}, pageSize=7, **more)
        walked += page["results"]
        more = {"pageToken": page["pageToken"]} if "pageToken" in page else {}
    assert walked[: len(whole)] == whole
    assert len({each["identifier"] for each in walked}) == len(walked) > 14
    scores = [each["score"] for each in walked if each["score"] < 100]
    assert scores == sorted(scores, reverse=True)


def test_a_token_of_another_search_is_refused_with_its_name(client: httpx.Client) -> None:
    token = search(client, pageSize=1)["pageToken"]
    for body in (
        {"query": {"text": "tides"}, "pageToken": token},
        QUERY | {"pageToken": "x" * 100},
        QUERY | {"pageToken": ""},
    ):
        assert "pageToken" in error(client.post("/ard/search", json=body))


def test_results_of_an_engine_that_explains_nothing_have_scores_by_their_places(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = create_app(Settings(artifacts=str(sample), max_lag=0))
    with in_process(app) as client:
        whole = search(client, pageSize=100)
        engine = served_snapshot(app).engine
        ranked = engine.search_services

        async def search_unexplained(request: Search[Filters]) -> Answer:
            return replace(await ranked(request), explanations=None)

        monkeypatch.setattr(engine, "search_services", search_unexplained)
        bare = search(client, pageSize=100)
    assert ids(bare) == ids(whole)
    scores = [each["score"] for each in bare["results"]]
    assert scores[0] == 91
    assert scores == sorted(scores, reverse=True)


def test_other_registries_are_named_to_who_asks_for_referrals_only(named: httpx.Client) -> None:
    for federation in ("none", "auto"):
        assert "referrals" not in search(named, federation=federation)
    assert search(named, federation="referrals")["referrals"] == [
        {
            "identifier": f"urn:air:{host}:registry",
            "displayName": host,
            "type": "application/ai-registry+json",
            "url": url,
        }
        for host, url in (
            ("finder.example", "https://finder.example/search"),
            ("other.example", "http://other.example:8080"),
        )
    ]


def test_without_neighbours_the_referrals_are_empty(client: httpx.Client) -> None:
    assert search(client, federation="referrals")["referrals"] == []


@pytest.mark.parametrize(
    "address", ["finder.example", "https://localhost/", "ftp://a.example", "x"]
)
def test_a_registry_without_an_address_ends_the_start(address: str) -> None:
    with pytest.raises(ValueError, match=r"RATECARD_ARD_REGISTRIES: .* is no address"):
        Settings(ard_registries=f"https://a.example,{address}")


def test_the_publisher_is_the_public_name_else_that_of_the_request(
    named: httpx.Client, client: httpx.Client
) -> None:
    def publisher(client: httpx.Client, host: str) -> str:
        manifest = client.get("/.well-known/ard.json", headers={"host": host}).json()
        assert manifest["entries"][0]["url"] == f"http://{host.lower()}/ard"
        name: str = manifest["entries"][0]["identifier"].split(":")[2]
        return name

    assert publisher(named, "other.example") == "catalogue.example"
    assert publisher(client, "API.example:8443") == "api.example"
    for host in ("localhost", "127.0.0.1:8000", "[::1]:8000", "a_b.example"):
        assert publisher(client, host) == "ratecard.localhost"


@pytest.mark.parametrize("path", ["/ard/agents/urn:air:a.example:b", "/.well-known/ard.json"])
@pytest.mark.parametrize("host", ["", "a b", "a.example/x", '"', "a.example,b.example", "[::1"])
def test_a_host_that_is_none_is_refused(client: httpx.Client, host: str, path: str) -> None:
    address, port = client.base_url.host, client.base_url.port
    assert port
    with socket.create_connection((address, port)) as raw:
        lines = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n"
        raw.sendall(f"{lines}Connection: close\r\n\r\n".encode())
        answer = raw.makefile("rb").read()
    assert b" 400 " in answer.partition(b"\r\n")[0]
    assert b'"errorCode":"INVALID_ARGUMENT"' in answer


def test_an_entry_is_kept_by_clients_alone_and_validated(named: httpx.Client) -> None:
    urn = "urn:air:catalogue.example:service:tidewatch-example"
    for path in (f"/ard/agents/{urn}", "/.well-known/ard.json"):
        first = named.get(path, headers={"host": "evil.example"})
        own = named.get(path)
        assert "evil.example" in first.text
        assert "evil.example" not in own.text
        assert first.headers["etag"] != own.headers["etag"]
        assert own.headers["cache-control"] == "private, no-cache"
        again = named.get(path, headers={"if-none-match": own.headers["etag"]})
        assert again.status_code == 304
        assert named.head(path).headers["etag"] == own.headers["etag"]


def test_ids_of_every_form_have_identifiers_of_the_standard(artifacts: Path, build: Build) -> None:
    names = ["a", "a~b", "~", "a~", "~_", "a_", "A.b-c_d~~e", "x" * 256]
    assert build([service(name, name=f"Tide {n}") for n, name in enumerate(names)]) == 0
    with in_process(create_app(Settings(artifacts=str(artifacts)))) as client:
        results = search(client, "tide", pageSize=100)["results"]
        assert len(results) == len(names)
        for result in results:
            assert URN.fullmatch(result["identifier"])
            assert "::" not in result["identifier"]
            entry = client.get(f"/ard/agents/{quote(result['identifier'], safe='')}").json()
            assert entry["url"] == result["url"]
            assert client.get(entry["url"]).status_code == 200
        assert len({each["url"] for each in results}) == len(names)


@pytest.mark.parametrize(
    "identifier",
    [
        "",
        "x",
        "urn%253Aair%253Aa.example%253Ab",
        "urn:air:a.example:b%2Fc",
        "urn:air:%zz",
        "urn:air:a",
    ],
)
def test_what_is_no_identifier_is_an_invalid_argument(
    client: httpx.Client, identifier: str
) -> None:
    assert "percent-encoded" in error(client.get(f"/ard/agents/{identifier}"))


@pytest.mark.parametrize(
    "identifier", ["service:nobody", "SERVICE:tidewatch-example", "service:tidewatch-example:_"]
)
def test_an_identifier_that_nothing_has_is_not_found(client: httpx.Client, identifier: str) -> None:
    error(client.get(f"/ard/agents/urn:air:ratecard.localhost:{identifier}"), 404)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "truncated"),
        (b"{", "truncated"),
        (b"[]", "Expected `object`"),
        (b"{}", "`query`"),
        (b'{"query":{}}', "`text`"),
        (b'{"query":{"text":null}}', "$.query.text"),
        (b'{"query":{"text":"   \\n"}}', "query.text is required"),
        (b'{"query":{"text":"%b"}}' % (b"x" * 2001), "2000"),
        (b'{"query":{"text":"\xff"}}', "UTF-8"),
        (b'{"query":{"text":"\\ud800"}}', "body"),
        (b'{"query":{"text":"a","filter":{"metadata.maxPrice":NaN}}}', "malformed"),
        (b'{"query":{"text":"a","filter":{"metadata.maxPrice":-1}}}', "metadata.maxPrice must be"),
        (b'{"query":{"text":"a","filter":{"metadata.maxPrice":1%b}}}' % (b"0" * 400), "range"),
        (
            b'{"query":{"text":"a","filter":{"metadata.maxPrice":[1,2]}}}',
            "maxPrice was given 2 times",
        ),
        (
            b'{"query":{"text":"a","filter":{"metadata.alive":"perhaps"}}}',
            "metadata.alive must be one of",
        ),
        (
            b'{"query":{"text":"a","filter":{"metadata.tag":"a","tags":["b"]}}}',
            "query.filter has `metadata.tag` and `tags`, which are the same",
        ),
        (
            b'{"query":{"text":"a","filter":{"metadata.networks":1,"metadata.network":1}}}',
            "query.filter has `metadata.networks` and `metadata.network`",
        ),
        (b'{"query":{"text":"a","filter":{"tags":{"a":"b"}}}}', "$.query.filter"),
        (b'{"query":{"text":"a","filter":{"Tags":"b"}}}', "`Tags`; filter by any of: type"),
        (b'{"query":{"text":"a","filter":{"metadata.maxprice":"b"}}}', "metadata.maxPrice"),
        (b'{"query":{"text":"a"},"federation":"all"}', "$.federation"),
        (b'{"query":{"text":"a"},"pageSize":0}', "$.pageSize"),
        (b'{"query":{"text":"a"},"pageSize":1.5}', "$.pageSize"),
        (b'{"query":{"text":"a"},"pageSize":1%b}' % (b"0" * 5000), "$.pageSize"),
        (b'{"query":{"text":"a"},"more":%b' % (b"[" * 60_000), "recursion"),
        (b'{"query":{"text":"a","@context":%b' % (b'{"a":' * 10_000), "recursion"),
        (b'{"query":{"text":"a"}} x', "trailing"),
        (json.dumps({"query": {"text": "a", "filter": {"tags": [*map(str, range(101))]}}}), "101"),
        (b'{"query":{"text":"%b"}}' % (b"x" * MAX_BODY), "65,536 bytes"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_body_that_cannot_be_answered_says_why(
    client: httpx.Client, body: bytes, reason: str
) -> None:
    assert reason.casefold() in error(send(client, body)).casefold()


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"query":{"text":"a","text":"tidewatch"}}', 1),
        (b'{"query":{"text":"TIDEWATCH \\u0000 \\ud83c\\udf0a"},"pageSize":1000}', 1),
        (b'{"query":{"text":"tidewatch","@context":{"a":"b"}},"unknown":{"a":[1]}}', 1),
        (b'{"query":{"text":"tidewatch"},"pageToken":null}' + b" " * (MAX_BODY - 47), 1),
        (b'{"query":{"text":"!?"}}', 0),
    ],
)
def test_a_body_of_an_odd_form_is_answered(client: httpx.Client, body: bytes, found: int) -> None:
    results = send(client, body).json()["results"]
    assert len(results) >= found
    assert not found or ids({"results": results})[0] == "tidewatch-example"
    assert found or not results


@given(st.binary(max_size=300) | BODIES.map(lambda body: json.dumps(body).encode()))
def test_no_body_makes_the_service_fail(named: httpx.Client, body: bytes) -> None:
    assert send(named, body).status_code in {200, 400}


@pytest.mark.parametrize(
    "media_type", [None, "application/ld+json", "application/x-www-form-urlencoded", "", "*"]
)
def test_json_by_any_name_is_read(client: httpx.Client, media_type: str | None) -> None:
    assert send(client, json.dumps(QUERY), media_type).status_code == 200


def test_an_endless_body_is_refused_before_it_ends(client: httpx.Client) -> None:
    address, port = client.base_url.host, client.base_url.port
    assert port
    head = "POST /ard/search HTTP/1.1\r\nHost: a.example\r\nContent-Type: application/json\r\n"
    with socket.create_connection((address, port), timeout=30) as raw:
        raw.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        raw.sendall(b"10000\r\n" + b" " * 0x10000 + b"\r\n1\r\n \r\n")
        assert raw.recv(1000).startswith(b"HTTP/1.1 400 ")


def test_a_request_without_a_body_is_refused_and_one_that_leaves_is_no_failure(
    sample: Path,
) -> None:
    head = "POST /ard/search HTTP/1.1\r\nHost: a.example\r\n"
    with serve(sample) as client:
        address, port = client.base_url.host, client.base_url.port
        assert port
        with socket.create_connection((address, port), timeout=30) as raw:
            raw.sendall(f"{head}\r\n".encode())
            assert raw.recv(1000).startswith(b"HTTP/1.1 400 ")
        with socket.create_connection((address, port), timeout=30) as raw:
            raw.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        counted = (
            'ratecard_request_seconds_count{cache="none",route="/ard/search",status="400"} 2.0'
        )
        eventually(lambda: counted in client.get("/metrics").text)


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH"])
def test_other_methods_than_post_are_405_with_those_that_are_allowed(
    client: httpx.Client, method: str
) -> None:
    response = client.request(method, "/ard/search", headers={"accept": "text/html"})
    assert (response.status_code, response.headers["allow"]) == (405, "POST, OPTIONS")
    if method != "HEAD":
        error(response, 405)


def test_the_preflight_allows_pages_to_send_json(client: httpx.Client) -> None:
    asked = {
        "origin": "https://page.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type",
    }
    preflight = client.options("/ard/search", headers=asked)
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-methods"] == "POST, OPTIONS"
    assert "content-type" in preflight.headers["access-control-allow-headers"].lower()
    answer = client.post("/ard/search", json=QUERY, headers={"origin": "https://page.example"})
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["cache-control"] == "private, no-cache"
    assert "ratecard-snapshot" in answer.headers


def test_an_answer_is_compressed_says_how_well_it_fits_and_is_always_sent(
    client: httpx.Client,
) -> None:
    whole = client.post("/ard/search", json=QUERY, headers={"accept-encoding": "gzip"})
    assert whole.headers["content-encoding"] == "gzip"
    found = client.get("/v1/search/services", params={"q": QUERY["query"]["text"]})
    for name in ("ratecard-fit", "ratecard-similar"):
        assert whole.headers[name] == found.headers[name]
    known = {"accept-encoding": "gzip", "if-none-match": f"*, {whole.headers['etag']}"}
    again = client.post("/ard/search", json=QUERY, headers=known)
    assert (again.status_code, again.json()) == (200, whole.json())


def test_a_search_is_counted_and_logged_with_its_query_as_one_by_get_is(
    sample: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    app = create_app(Settings(artifacts=str(sample), log_requests=True))
    with in_process(app) as client:
        search(client, "köln & tides")
        client.get("/v1/search/services", params={"q": "köln & tides"})
        assert 'route="/ard/search",status="200"' in client.get("/metrics").text
    app.state.context.access_log.flush()
    posted, got, _ = map(json.loads, capfd.readouterr().out.splitlines())
    assert (posted["method"], posted["route"], posted["status"]) == ("POST", "/ard/search", 200)
    assert (posted["target"], posted["query"]) == ("/ard/search", "köln & tides")
    assert httpx.URL(got["target"]).params["q"] == posted["query"]
    assert "query" not in got


def test_it_answers_below_the_path_of_an_outer_application(sample: Path) -> None:
    outer = Starlette(routes=[Mount("/api", create_app(Settings(artifacts=str(sample))))])
    with in_process(outer) as client:
        answer = client.post("/api/ard/search", json=QUERY).json()["results"][0]
        assert answer["source"] == "http://a.example/api/ard"
        assert client.get(answer["url"]).status_code == 200
        entry = client.get(f"/api/ard/agents/{quote(answer['identifier'], safe='')}").json()
        assert entry["url"] == answer["url"]
        error(client.get("/api/ard/agents/x"))
        manifest = client.get("/api/.well-known/ard.json").json()
        assert manifest["entries"][0]["url"] == "http://a.example/api/ard"


def test_without_a_snapshot_a_search_is_503_in_the_shape_of_ard(tmp_path: Path) -> None:
    with in_process(create_app(Settings(artifacts=str(tmp_path)))) as client:
        response = client.post("/ard/search", json=QUERY)
        assert "retry-after" in response.headers
        error(response, 503)
        assert client.get("/.well-known/ard.json").status_code == 200


def test_a_number_beyond_all_doubles_in_a_record_hides_no_entry(
    artifacts: Path, build: Build
) -> None:
    source = artifacts.with_name("huge.json")
    records = [service("a", name="Tide"), service("b", name="Tide", x="HUGE", tags=["sea"])]
    source.write_text(json.dumps(records).replace('"HUGE"', "1e400"))
    assert build(source) == 0
    with in_process(create_app(Settings(artifacts=str(artifacts)))) as client:
        results = search(client, "tide")["results"]
        assert sorted(ids({"results": results})) == ["a", "b"]
        for result in results:
            entry = client.get(f"/ard/agents/{result['identifier']}")
            assert entry.json() == {key: result[key] for key in result.keys() - {"score", "source"}}


def test_a_page_is_bounded_in_bytes_and_goes_on_after_its_last_entry(
    artifacts: Path, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [service(f"a{n}", name="Tide", description="d" * 4000) for n in range(9)]
    assert build(records) == 0
    found: list[str] = []
    more: Json = {}
    with in_process(create_app(Settings(artifacts=str(artifacts)))) as client:
        whole = ids(search(client, "tide", pageSize=100))
        for size, count in ((1000, 1), (10_000, 2), (16_000, 3), (2**20, 3)):
            monkeypatch.setattr("service.api.listing.MAX_PAGE", size)
            page = search(client, "tide", pageSize=5, **more)
            assert len(page["results"]) == count
            found += ids(page)
            more = {"pageToken": page.get("pageToken")}
    assert found == whole
    assert more == {"pageToken": None}


def test_an_empty_catalogue_has_no_results(artifacts: Path, build: Build) -> None:
    source = artifacts.with_name("empty.json")
    source.write_text("[]")
    assert build(source) == 0
    with in_process(create_app(Settings(artifacts=str(artifacts)))) as client:
        assert search(client) == {"results": []}
