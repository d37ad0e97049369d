"""The `curl` command that calls an endpoint."""

from __future__ import annotations

import json
import shlex
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.cli.curl import make_curl_command
from service.records import Endpoint
from tests.support.running import Json, endpoint


def parameter(name: str, example: Any, group: str = "query", **fields: Any) -> Json:
    return {"name": name, "group": group, "type": "string", "example": example} | fields


def described(url: str, method: str = "GET", *parameters: Json) -> Endpoint:
    record = endpoint() | {"url": url, "method": method, "parameters": list(parameters)}
    return msgspec.json.decode(json.dumps(record), type=Endpoint)


@pytest.mark.parametrize(
    ("given_endpoint", "words"),
    [
        (described("https://a.example/x"), ["https://a.example/x"]),
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
        (described("https://a.example/x", "GET, POST"), ["https://a.example/x"]),
        (described("https://a.example/x", "; rm -rf"), ["https://a.example/x"]),
        (described("https://a.example/x", "delete"), ["-X", "DELETE", "https://a.example/x"]),
        (
            described(
                "https://a.example:8080/:id/{kind}/{none}?a=1#f",
                "GET",
                parameter("id", "a/../b", "path"),
                parameter("kind", 7, "path"),
                parameter("q", "x y&z", required=True),
                parameter("a", "given already", required=True),
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
            described("https://a.example/x", "", parameter("it's", ["\u202e'", 1.10], "body")),
            [
                "https://a.example/x",
                "-H",
                "Content-Type: application/json",
                "-d",
                '{"it\'s":["\\u202e\'", 1.1]}',
            ],
        ),
        (
            described(
                "https://a.example/x",
                "PUT",
                parameter("a", "@/etc/passwd", "body", required=True),
                parameter("b", 1, "body"),
            ),
            [
                "-X",
                "PUT",
                "https://a.example/x",
                "-H",
                "Content-Type: application/json",
                "-d",
                '{"a":"@/etc/passwd"}',
            ],
        ),
    ],
)
def test_the_command_is_safe_to_run_in_a_shell(
    given_endpoint: Endpoint, words: list[str] | None
) -> None:
    command = make_curl_command(given_endpoint)
    assert command.isprintable()
    assert shlex.split(command) == ([] if words is None else ["curl", "-i", *words])


@settings(deadline=None)  # a loaded machine is slow
@given(st.text(), st.text(), st.text())
def test_text_of_a_record_stays_within_one_word_of_the_shell(
    url: str, name: str, value: str
) -> None:
    command = make_curl_command(
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
