"""The curl command of an endpoint: correct, and safe whatever the record says."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.api.documents.curl import MAX_CALL, curl
from service.bodies import escape_json
from service.schema.records import Endpoint
from tests.support.clients.terminals import arguments
from tests.support.running import Json, endpoint
from tests.support.sources.awkward import ADDRESSES, TEXTS, hostile_endpoint


def parameter(name: str, example: Any, group: str = "query", **fields: Any) -> Json:
    return {"name": name, "group": group, "type": "string", "example": example} | fields


def decode(record: Json) -> Endpoint:
    return msgspec.json.decode(json.dumps(record), type=Endpoint)


def described(url: str, method: str = "GET", *parameters: Json) -> Endpoint:
    return decode(endpoint() | {"url": url, "method": method, "parameters": list(parameters)})


X = "https://a.example/x"
HEADER = ("-H", "Content-Type: application/json")


@pytest.mark.parametrize(
    ("given_endpoint", "words"),
    [
        (described(X), [X]),
        (described("javascript:alert(1)"), None),
        (described("-o/etc/passwd"), None),
        (described("file:///etc/passwd"), None),
        (
            described("https://a.example/$(id)`id`';id;'\n\x1b[2J\u202e \"é#x"),
            [
                "--globoff",
                "https://a.example/$(id)%60id%60%27;id;%27%0A%1B[2J%E2%80%AE%20%22%C3%A9",
            ],
        ),
        (described(X, "GET, POST"), [X]),
        (described(X, "; rm -rf"), [X]),
        (described(X, "delete"), ["-X", "DELETE", X]),
        (
            described(
                "https://a.example:8080/:id/{kind}/{none}?a=1#f",
                "GET",
                parameter("id", "a/../b", "path"),
                parameter("kind", 7, "path"),
                parameter("q", "x y&z", required=True),
                parameter("a", "already in the URL", required=True),
                parameter("left", "out", required=False),
                parameter("silent", "out"),
                parameter("big", 12345678901234567890, required=True),
                parameter("default", None, default=True, required=True),
                parameter("one", "", enumValues=["of", "many"], required=True),
                parameter("some", ["x", 2], required=True),
                parameter("any", None, type="boolean", required=True),
            ),
            [
                "--globoff",
                "https://a.example:8080/a%2F..%2Fb/7/{none}?a=1&q=x+y%26z"  # noqa: ISC004  # one
                "&big=12345678901234567890&default=true&one=of&some=x%2C2&any=true",
            ],
        ),
        (
            described(X, "GET", parameter("some", ["x", True, None, 1.50], required=True)),
            [f"{X}?some=x%2Ctrue%2Cnull%2C1.5"],
        ),
        (described(X, ""), [X]),
        (described(X, "", parameter("depth", 2.5, "body")), [X, *HEADER, "-d", '{"depth":2.5}']),
        (
            described(X, "GET", parameter("note", "it's", "body")),
            ["-X", "GET", X, *HEADER, "-d", '{"note":"it\'s"}'],
        ),
        (described(X, "HEAD"), ["--head", X]),
        (described(X, "HEAD", parameter("note", 1, "body")), None),
        *(
            (described(X, methods, parameter("note", 1, "body")), [*words, "-d", '{"note":1}'])
            for methods, words in (
                ("GET, POST", [X, *HEADER]),
                ("HEAD|GET|PUT|POST", ["-X", "PUT", X, *HEADER]),
                ("GET, HEAD", ["-X", "GET", X, *HEADER]),
                ("HEAD, GET", ["-X", "GET", X, *HEADER]),
            )
        ),
        (described(f"{X}/[1-3]"), ["--globoff", f"{X}/[1-3]"]),
        (
            described(f"{X}/:station/tides", "GET", parameter("station", "Ærø/2", "path")),
            [f"{X}/%C3%86r%C3%B8%2F2/tides"],
        ),
        (
            described(X, "", parameter("it's", ["\u202e'", 1.10], "body")),
            [
                X,
                *HEADER,
                "-d",
                '{"it\'s":["\\u202e\'", 1.1]}',
            ],
        ),
        (
            described(
                X,
                "PUT",
                parameter("a", "@/etc/passwd", "body", required=True),
                parameter("b", 1, "body"),
            ),
            [
                "-X",
                "PUT",
                X,
                *HEADER,
                "-d",
                '{"a":"@/etc/passwd"}',
            ],
        ),
    ],
)
def test_a_shell_gives_curl_these_arguments(
    given_endpoint: Endpoint, words: list[str] | None, tmp_path: Path
) -> None:
    command = curl(given_endpoint)
    assert command.isprintable()
    expected = [] if words is None else ["-i", *words]
    assert arguments(command, tmp_path) == expected
    assert shlex.split(command) == (["curl", *expected] if expected else [])


def test_a_value_for_the_body_or_the_path_replaces_none_of_the_query() -> None:
    call = described(
        "https://a.example/{id}?action=run&id=1&n=2",
        "POST",
        parameter("action", "stop", "body"),
        parameter("id", 7, "path"),
        parameter("n", 3),
    )
    values = {name: msgspec.Raw(b"9") for name in ("action", "id", "n")}
    url, *_, body = shlex.split(curl(call, values))[2:]
    assert url == "https://a.example/9?action=run&id=1&n=9"
    assert json.loads(body) == {"action": 9}


@pytest.mark.parametrize(
    "given_endpoint",
    [
        described(X + "a" * MAX_CALL),
        described(X, "", parameter("long", "a" * MAX_CALL, "body")),
        described(X, "GET", parameter("long", "a" * MAX_CALL, required=True)),
        described(X + "{a}" * 1000, "GET", parameter("a", "a" * 1000, "path")),
    ],
)
def test_a_call_that_is_too_long_has_no_command(given_endpoint: Endpoint) -> None:
    assert curl(given_endpoint) == ""


def test_a_value_that_is_not_sent_may_be_long() -> None:
    assert curl(described(X, "GET", parameter("long", "a" * MAX_CALL))) == f"curl -i {X}"


@pytest.mark.parametrize("text", TEXTS)
def test_a_hostile_record_runs_nothing_and_calls_no_other_host(text: str, tmp_path: Path) -> None:
    commands = [curl(decode(hostile_endpoint(url, text))) for url in ADDRESSES]
    for url, command in zip(ADDRESSES, commands, strict=True):
        assert bool(command) == url.startswith("https://")
        given_arguments = arguments(command, tmp_path)
        assert list(tmp_path.iterdir()) == []
        if command:
            options = {word for word in given_arguments if word.startswith("-")}
            assert options <= {"-i", "--globoff", "-X", "-H", "-d"}
            (address,) = [word for word in given_arguments if word.startswith("https://")]
            assert httpx.URL(address).host == "elsewhere.example"
            assert address.isascii()
            assert json.loads(given_arguments[-1])


@settings(deadline=None)  # slow on a loaded machine
@given(st.text(), st.text(), st.text())
def test_text_of_a_record_is_quoted_as_one_shell_word(url: str, name: str, value: str) -> None:
    command = curl(
        described(
            f"https://a.example/{url}",
            "POST",
            parameter(name, value, required=True),
            parameter(name, value, "path"),
            parameter(name, value, "body"),
        )
    )
    assert command.isprintable()
    words = [word for word in shlex.split(command) if word != "--globoff"]
    assert words[:2] == ["curl", "-i"]
    assert words[2].isascii()
    assert words[3:6] == ["-H", "Content-Type: application/json", "-d"]
    assert json.loads(words[6]) == {name: value or "..."}


@settings(deadline=None)  # a loaded machine is slow
@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner, max_size=3)))
def test_escaped_json_means_the_same_and_is_one_printable_line(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=1)
    shown = escape_json(text)
    assert shown.isprintable()
    assert json.loads(shown) == value
