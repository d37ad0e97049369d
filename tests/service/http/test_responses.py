"""Headers of responses: entity tags and 304, caching, content codings, CORS, request ids."""

from __future__ import annotations

import gzip
import json
import logging
import re
import socket
import string
import sys
from importlib import import_module
from pathlib import Path

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from service.app import create_app
from service.http.compression import CODINGS, MIN_SIZE
from service.settings import Settings
from tests.support.running import (
    Build,
    endpoint,
    eventually,
    examples,
    in_process,
    open_app,
    service,
)

LARGE, SMALL = "/v1/services", "/v1/services?limit=1&endpoints=none"
CACHEABLE = (
    LARGE,
    SMALL,
    "/v1/services/tidewatch-example",
    "/v1/search/services?q=tide",
    "/v1/services/search?q=tide&facets=category",
    "/v1/ecosystem/overview",
    "/v1/ecosystem/stats",
    "/v1/ecosystem/transactions",
    "/openapi.json",
)
NOT_CACHEABLE = {
    "/v1/services?limit=0": 400,
    "/v1/services/nowhere": 404,
    "/nowhere": 404,
    "/healthz": 200,
    "/readyz": 200,
    "/metrics": 200,
}
ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
EXAMPLES = settings(
    deadline=None,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # clients have no state
)


def fetch(client: httpx.Client, path: str, method: str = "GET", **headers: str) -> httpx.Response:
    """Send a request and return the encoded response; send `Accept-Encoding` only if given."""
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    request = client.build_request(method, path, headers={"accept-encoding": ""} | fields)
    if "accept_encoding" not in headers:
        del request.headers["accept-encoding"]
    response = client.send(request, stream=True)
    body = b"".join(response.iter_raw())
    return httpx.Response(
        response.status_code,
        headers=[pair for pair in response.headers.multi_items() if pair[0] != "content-encoding"],
        extensions={"coding": response.headers.get("content-encoding", "")},
        content=body,
    )


def coding_of(response: httpx.Response) -> str:
    coding: str = response.extensions["coding"]
    return coding


def decoded(response: httpx.Response) -> bytes:
    match coding_of(response):
        case "gzip":
            return gzip.decompress(response.content)
        case "zstd":
            body: bytes = import_module(ZSTD).decompress(response.content)
            return body
        case _:
            return response.content


@pytest.mark.parametrize("coding", ["", *(name.decode() for name in CODINGS)])
@pytest.mark.parametrize("path", CACHEABLE)
def test_a_matching_entity_tag_is_304_without_a_body(
    client: httpx.Client, path: str, coding: str
) -> None:
    first = fetch(client, path, accept_encoding=coding)
    tag = first.headers["etag"]
    again = fetch(client, path, accept_encoding=coding, if_none_match=tag)
    assert (first.status_code, again.status_code) == (200, 304)
    assert again.content == b""
    for name in ("etag", "vary", "cache-control", "ratecard-snapshot"):
        assert again.headers[name] == first.headers[name]
    assert not {"content-type", "content-length"} & again.headers.keys()
    assert coding_of(again) == ""
    assert fetch(client, path, accept_encoding=coding, if_none_match='"other"').status_code == 200


def test_each_content_coding_has_its_own_entity_tag(client: httpx.Client) -> None:
    codings = ("", *(name.decode() for name in CODINGS))
    tags = [fetch(client, LARGE, accept_encoding=coding).headers["etag"] for coding in codings]
    assert len({*tags}) == len(codings) > 1
    assert fetch(client, LARGE, accept_encoding="gzip", if_none_match=tags[0]).status_code == 200


def test_different_services_have_different_entity_tags(client: httpx.Client) -> None:
    services = client.get("/v1/services?limit=200").json()["services"]
    tags = {fetch(client, f"/v1/services/{one['id']}").headers["etag"] for one in services}
    assert len(tags) == len(services)


def test_the_entity_tag_of_a_service_changes_only_with_its_record(
    artifacts: Path, build: Build
) -> None:
    assert build([service("same"), service("other")]) == 0
    paths = ("/v1/services/same", "/v1/services/other", "/v1/services", "/v1/ecosystem/overview")
    with open_app(artifacts) as client:
        before = {path: fetch(client, path).headers for path in paths}
        assert build([service("same"), service("other", endpoints=[endpoint("0.02")])]) == 0
        current = (artifacts / "CURRENT").read_text().strip()
        eventually(lambda: client.get("/readyz").json()["snapshot"] == current)
        after = {
            path: fetch(client, path, if_none_match=before[path]["etag"]).headers for path in paths
        }
        unchanged = fetch(
            client, "/v1/services/same", if_none_match=before["/v1/services/same"]["etag"]
        )
    assert unchanged.status_code == 304
    assert before["/v1/services/same"]["ratecard-snapshot"] != current
    assert unchanged.headers["ratecard-snapshot"] == current
    changed = {path for path in paths if after[path]["etag"] != before[path]["etag"]}
    assert changed == {*paths} - {"/v1/services/same"}
    assert all("content-length" in after[path] for path in changed)


# Field values of RFC 9110, section 5.5; the HTTP parser refuses other bytes and strips white space.
field_values = st.lists(
    st.sampled_from([*range(0x21, 0x7F), *range(0x80, 0x100), 0x09, 0x20]), max_size=20
).map(lambda codes: bytes(codes).strip(b" \t"))
optional_space = st.sampled_from(["", " ", "\t", "  "])
opaque = st.text("!#$%&'()*+,-./:;<=>?@[]^`{|}~abcXYZ019", max_size=6)


@st.composite
def tag_lists(draw: st.DrawFn) -> str:
    """Draw a value of `If-None-Match` that may contain OURS."""
    tags = draw(st.lists(st.just("OURS") | opaque, max_size=5))
    parts = [f'{draw(st.sampled_from(["", "W/"]))}"{tag}"' for tag in tags]
    empty = draw(st.lists(st.just(""), max_size=2))
    spaced = [
        draw(optional_space) + part + draw(optional_space)
        for part in draw(st.permutations(parts + empty))
    ]
    return ",".join(spaced)


@EXAMPLES
@given(tag_lists())
def test_lists_of_entity_tags_are_compared_weakly(client: httpx.Client, tags: str) -> None:
    ours = fetch(client, SMALL).headers["etag"].strip('"')
    response = fetch(client, SMALL, if_none_match=tags.replace("OURS", ours).strip())
    assert response.status_code == (304 if "OURS" in tags else 200)


@pytest.mark.parametrize("appended", ["-gzip", "-br", "-zstd", ";gzip", "--gzip"])
def test_an_entity_tag_to_which_a_gateway_has_appended_its_coding_is_304(
    client: httpx.Client, appended: str
) -> None:
    for path in (SMALL, LARGE):
        for coding in ("", "gzip"):
            tag = fetch(client, path, accept_encoding=coding).headers["etag"].strip('"')
            known = f'"x{appended}", W/"{tag}{appended}"'
            assert (
                fetch(client, path, accept_encoding=coding, if_none_match=known).status_code == 304
            )
            for other in (f"{tag}{appended}x", f"x{tag}{appended}", appended, f"{tag}-x"):
                known = f'"{other}"'
                response = fetch(client, path, accept_encoding=coding, if_none_match=known)
                assert response.status_code == 200


def test_no_entity_tag_ends_as_one_to_which_a_gateway_has_appended(client: httpx.Client) -> None:
    """Caddy takes the appended coding from `If-None-Match`, whoever has appended it."""
    for coding in CODINGS:
        tag = fetch(client, LARGE, accept_encoding=coding.decode()).headers["etag"]
        assert not tag.endswith((f'-{coding.decode()}"', f';{coding.decode()}"'))


def test_entity_tags_of_repeated_headers_are_one_list(client: httpx.Client) -> None:
    tag = fetch(client, SMALL).headers["etag"]
    for lines in (["*"], ['"x"', tag], [f"W/{tag}", '"y"'], ['"x", "y"', f'"z", {tag}']):
        headers = [("if-none-match", line) for line in lines]
        assert client.get(SMALL, headers=headers).status_code == 304
    other_tags = [("if-none-match", '"x"'), ("if-none-match", '"y"')]
    assert client.get(SMALL, headers=other_tags).status_code == 200


@pytest.mark.parametrize(
    "malformed",
    ["", "x", '"', '"*', "**", '*, "x"', "x*y", '"a b', "W/", "W/*", "*\t*", '"a" *', "{}", "'{}'"],
)
def test_a_malformed_list_of_entity_tags_matches_nothing(
    client: httpx.Client, malformed: str
) -> None:
    tag = fetch(client, SMALL).headers["etag"].strip('"')
    assert fetch(client, SMALL, if_none_match=malformed.format(tag)).status_code == 200


@EXAMPLES
@given(field_values)
def test_arbitrary_bytes_in_if_none_match_match_nothing(
    client: httpx.Client, header: bytes
) -> None:
    response = client.get(SMALL, headers=[(b"if-none-match", header)])
    assert response.status_code == (304 if header == b"*" else 200)


@pytest.mark.parametrize("path", CACHEABLE)
def test_responses_are_cacheable_for_a_minute(client: httpx.Client, path: str) -> None:
    response = fetch(client, path)
    assert response.headers["cache-control"] == "public, max-age=60"
    assert response.headers["vary"] == "Accept-Encoding"


def test_the_maximum_age_is_a_setting(sample: Path) -> None:
    expected = {0: "no-cache", 1: "public, max-age=1", 86400: "public, max-age=86400"}
    for max_age, value in expected.items():
        with in_process(create_app(Settings(artifacts=str(sample), max_age=max_age))) as client:
            first = client.get(SMALL)
            again = client.get(SMALL, headers={"if-none-match": first.headers["etag"]})
        assert again.status_code == 304
        assert [each.headers["cache-control"] for each in (first, again)] == [value, value]


@pytest.mark.parametrize("path", NOT_CACHEABLE)
def test_errors_health_and_metrics_are_not_cacheable(client: httpx.Client, path: str) -> None:
    response = fetch(client, path, accept_encoding="gzip", if_none_match="*")
    assert response.status_code == NOT_CACHEABLE[path]
    assert response.headers["cache-control"] == "no-store"
    assert "etag" not in response.headers
    assert coding_of(response) == ""


def test_responses_to_other_methods_and_503_are_not_cacheable(
    client: httpx.Client, tmp_path: Path
) -> None:
    assert client.post(LARGE).headers["cache-control"] == "no-store"
    assert client.options(LARGE).headers["cache-control"] == "no-store"
    with in_process(create_app(Settings(artifacts=str(tmp_path)))) as empty:
        unavailable = empty.get(LARGE)
    assert (unavailable.status_code, unavailable.headers["cache-control"]) == (503, "no-store")


@pytest.mark.parametrize("coding", [name.decode() for name in CODINGS])
@pytest.mark.parametrize("path", CACHEABLE)
def test_bodies_from_the_minimum_size_are_compressed(
    client: httpx.Client, path: str, coding: str
) -> None:
    plain, compressed = fetch(client, path), fetch(client, path, accept_encoding=coding)
    assert int(compressed.headers["content-length"]) == len(compressed.content)
    assert decoded(compressed) == plain.content
    json.loads(plain.content)
    if len(plain.content) >= MIN_SIZE:
        assert coding_of(compressed) == coding
        assert len(compressed.content) < len(plain.content)
    else:
        assert coding_of(compressed) == ""
        assert compressed.headers["etag"] == plain.headers["etag"]


qvalues = st.one_of(
    st.sampled_from(["0", "0.", "0.0", "0.000", "1", "1.", "1.000"]),
    st.integers(1, 999).map(lambda thousandths: f"0.{thousandths:03}"),
    st.integers(1, 9).map(lambda tenths: f"0.{tenths}"),
)
weights_of_codings = st.dictionaries(
    st.sampled_from(["gzip", "zstd", "identity", "*", "br", "deflate"]),
    st.none() | qvalues,
    max_size=6,
)


def preferences(weights_of_codings: dict[str, str | None]) -> dict[str, float]:
    """Return the weight of each supported coding by RFC 9110, section 12.5.3."""

    def weight_of(coding: str) -> float:
        for name in (coding, "*"):
            if name in weights_of_codings:
                weight = weights_of_codings[name]
                return 1.0 if weight is None else float(weight)
        return 0.0

    return {coding: weight_of(coding) for coding in ("zstd", "gzip", "identity")}


@EXAMPLES
@given(weights_of_codings, st.data())
def test_the_coding_is_the_one_of_the_highest_weight(
    client: httpx.Client, weights_of_codings: dict[str, str | None], data: st.DataObject
) -> None:
    items = []
    for name, weight in weights_of_codings.items():
        cased = data.draw(st.sampled_from([name, name.upper()]))
        space = data.draw(optional_space)
        q = data.draw(st.sampled_from("qQ"))
        items.append(f"{cased}{space};{space}{q}={weight}" if weight is not None else cased)
    separator = data.draw(st.sampled_from([",", ", ", " ,\t", ",,"]))
    response = fetch(client, LARGE, accept_encoding=separator.join(items))
    weights = preferences(weights_of_codings)
    if b"zstd" not in CODINGS:
        weights["zstd"] = 0.0
    # The first of equal weight, or `identity` when the client accepts no supported coding.
    best = max(weights, key=lambda coding: weights[coding]) if any(weights.values()) else "identity"
    assert coding_of(response) == ("" if best == "identity" else best)
    assert response.headers["vary"] == "Accept-Encoding"


@pytest.mark.parametrize(
    ("header", "coding"),
    [
        ("", ""),
        ("gzip, deflate, br", "gzip"),
        ("identity;q=0, gzip;q=0.1", "gzip"),
        ("gzip;q=0.0000", ""),  # a malformed weight of zero
        ("gzip;q=", ""),
        ("gzip;q=2", ""),
        ("gzip;q=-1", ""),
        ("gzip;q=0x1", ""),
        ("gzip;level=9", ""),
        ("gzipped, xgzip", ""),
        ("gzip" + ", x" * 200, "gzip"),  # longer than the cached headers
    ],
)
def test_malformed_and_partial_accept_encoding_headers(
    client: httpx.Client, header: str, coding: str
) -> None:
    assert coding_of(fetch(client, LARGE, accept_encoding=header)) == coding


@EXAMPLES
@given(st.text("gzipstd*;q=,.01 \t\"'", max_size=30).map(str.strip))
def test_the_body_can_be_decoded_for_any_accept_encoding(client: httpx.Client, header: str) -> None:
    plain, response = fetch(client, LARGE), fetch(client, LARGE, accept_encoding=header)
    assert response.status_code == 200
    assert decoded(response) == plain.content
    assert coding_of(response) in header or "*" in header


@pytest.mark.parametrize("coding", ["", "gzip"])
@pytest.mark.parametrize("path", [*CACHEABLE, *NOT_CACHEABLE])
def test_head_has_the_headers_of_get(client: httpx.Client, path: str, coding: str) -> None:
    def headers(response: httpx.Response) -> dict[str, str]:
        varying = {"date", "x-request-id"}
        if path == "/metrics":  # its body counts the request before
            varying.add("content-length")
        return {name: value for name, value in response.headers.items() if name not in varying}

    get = fetch(client, path, accept_encoding=coding)
    head = fetch(client, path, "HEAD", accept_encoding=coding)
    assert head.content == b""
    assert head.status_code == get.status_code
    assert headers(head) == headers(get)
    assert coding_of(head) == coding_of(get)
    assert "content-length" in head.headers


def test_head_with_a_matching_entity_tag_is_304(client: httpx.Client) -> None:
    tag = fetch(client, LARGE, accept_encoding="gzip").headers["etag"]
    assert (
        fetch(client, LARGE, "HEAD", accept_encoding="gzip", if_none_match=tag).status_code == 304
    )


def test_options_of_an_unknown_path_are_404(client: httpx.Client) -> None:
    response = client.options("/nowhere")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "path_not_found")


@pytest.mark.parametrize("path", [LARGE, *NOT_CACHEABLE])
def test_responses_and_errors_are_readable_from_any_origin(client: httpx.Client, path: str) -> None:
    response = client.get(path, headers={"origin": "https://a.example"})
    assert response.headers["access-control-allow-origin"] == "*"
    exposed = response.headers["access-control-expose-headers"].lower().split(", ")
    of_downloads = {"accept-ranges", "content-range"}
    own = {"etag", "ratecard-fit", "ratecard-similar", "ratecard-snapshot"}
    own |= {"retry-after", "x-request-id"}
    assert own | of_downloads == {*exposed}
    assert "access-control-allow-credentials" not in response.headers


SAFE_CHARACTERS = string.ascii_letters + string.digits + "_.:/+=@-"


@EXAMPLES
@example("a" * 128)
@given(st.text(SAFE_CHARACTERS, min_size=1, max_size=128))
def test_a_valid_request_id_is_echoed(client: httpx.Client, request_id: str) -> None:
    response = client.get("/healthz", headers={"x-request-id": request_id})
    assert response.headers.get_list("x-request-id") == [request_id]


@EXAMPLES
@given(field_values)
def test_any_request_id_is_echoed_only_if_valid(client: httpx.Client, request_id: bytes) -> None:
    response = client.get("/healthz", headers=[(b"x-request-id", request_id)])
    (returned,) = response.headers.get_list("x-request-id")
    valid = bool(request_id) and all(chr(byte) in SAFE_CHARACTERS for byte in request_id)
    assert (returned.encode("latin-1") == request_id) == valid
    assert {*returned} <= {*SAFE_CHARACTERS}


@pytest.mark.parametrize("request_id", ["", "a" * 129, "a,b"])
def test_an_invalid_request_id_is_replaced(client: httpx.Client, request_id: str) -> None:
    headers = [(b"x-request-id", request_id.encode("latin-1"))]
    response = client.get("/healthz", headers=headers)
    assert response.status_code == 200
    assert re.fullmatch(r"[0-9a-f]+-[0-9a-f]+", response.headers["x-request-id"])


def test_a_repeated_request_id_is_replaced(client: httpx.Client) -> None:
    response = client.get("/healthz", headers=[("x-request-id", "a"), ("x-request-id", "b")])
    assert re.fullmatch(r"[0-9a-f]+-[0-9a-f]+", response.headers["x-request-id"])


def test_generated_request_ids_are_unique(client: httpx.Client) -> None:
    paths = [LARGE, SMALL, *NOT_CACHEABLE] * 10
    ids = {client.get(path).headers["x-request-id"] for path in paths}
    assert len(ids) == len(paths)


@pytest.mark.parametrize("control", [b"\n", b"\r", b"\0", b"\x1b", b"\x7f"])
def test_control_characters_in_a_request_id_are_not_echoed(
    client: httpx.Client, control: bytes
) -> None:
    response = send_raw(client, b"X-Request-Id: a" + control + b"X-Injected: 1")
    assert response.startswith(b"HTTP/1.1 ")
    assert b"injected" not in response.lower()


def test_white_space_around_a_header_value_is_stripped(client: httpx.Client) -> None:
    assert b"x-request-id: mine\r\n" in send_raw(client, b"X-Request-Id:  mine \t")
    assert send_raw(client, b"If-None-Match: \t* ", SMALL).startswith(b"HTTP/1.1 304 ")
    assert b"content-encoding: gzip\r\n" in send_raw(client, b"Accept-Encoding:  gzip ", LARGE)


def send_raw(client: httpx.Client, header: bytes, path: str = "/healthz") -> bytes:
    """Send any header over a socket, and return the bytes of the response."""
    address = (client.base_url.host, client.base_url.port or 80)
    with socket.create_connection(address, timeout=10) as raw:
        lines = [b"GET %b HTTP/1.1" % path.encode(), b"Host: a", b"Connection: close", header]
        raw.sendall(b"".join(b"%b\r\n" % line for line in lines) + b"\r\n")
        return b"".join(iter(lambda: raw.recv(65536), b""))


def test_an_unexpected_error_is_500_and_logged_with_its_request_id(
    sample: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("service.api.services.list_body", fail)

    app = create_app(Settings(artifacts=str(sample)))
    with caplog.at_level(logging.ERROR), in_process(app) as client:
        response = client.get("/v1/services", headers={"x-request-id": "find-me"})
    assert response.status_code == 500
    assert response.headers["x-request-id"] == "find-me"
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["access-control-allow-origin"] == "*"
    assert response.json()["error"]["code"] == "internal_error"
    assert "secret" not in response.text
    (record,) = [record for record in caplog.records if "find-me" in record.getMessage()]
    assert record.exc_info is not None
    assert "secret" in caplog.text
