"""Bodies of requests: written in their form, and never naming a file of the caller."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from email import message_from_bytes
from email.policy import HTTP
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from service.api.documents.curl import curl
from service.bodies import FORM, MULTIPART, curl_words, encode_body, explain_body
from service.schema.records import Endpoint
from tests.support.running import Json, endpoint
from tests.support.sources.feeds import misbehaving

URL = "https://a.example/x"
CURL = shutil.which("curl") or ""


def posted(body_type: Any, *parameters: Json, **fields: Any) -> Endpoint:
    given = {"url": URL, "method": "POST", "bodyType": body_type} | fields
    given["parameters"] = [{"group": "body", "type": "string"} | each for each in parameters]
    return msgspec.json.decode(json.dumps(endpoint() | given), type=Endpoint)


CITY: Json = {"name": "city", "example": "Oslo & more"}
WHOLE: Json = {"name": "body", "example": "Oslo"}


@pytest.mark.parametrize(
    ("called", "words"),
    [
        (posted(MULTIPART, CITY), ["-F", "city=Oslo & more"]),
        (posted(MULTIPART, CITY | {"example": "@a;b"}), ["-F", 'city="@a;b"']),
        (posted(MULTIPART, CITY | {"example": "@file"}), ["-F", "city=@file"]),
        (posted(MULTIPART, CITY | {"example": 7}), ["-F", "city=7"]),
        (posted(FORM, CITY), ["--data-urlencode", "city=Oslo & more"]),
        (posted(FORM, CITY | {"example": "@a\n\u3000"}), ["--data-raw", "city=%40a%0A%E3%80%80"]),
        (posted(FORM, CITY | {"name": "a@b c"}), ["--data-urlencode", "a%40b%20c=Oslo & more"]),
        (
            posted("text/plain", WHOLE, wholeBody=True),
            ["-H", "Content-Type: text/plain", "--data-binary", "Oslo"],
        ),
        (
            posted("text/plain", WHOLE | {"example": "@/etc/passwd"}, wholeBody=True),
            ["-H", "Content-Type: text/plain", "--data-raw", "@/etc/passwd"],
        ),
        (
            posted("application/octet-stream", {"name": "body"}, wholeBody=True),
            ["-H", "Content-Type: application/octet-stream", "--data-binary", "@file"],
        ),
        (
            posted("application/json", WHOLE | {"example": [1]}, wholeBody=True),
            ["-H", "Content-Type: application/json", "-d", "[1]"],
        ),
        (
            posted("application/ld+json", CITY),
            ["-H", "Content-Type: application/ld+json", "-d", '{"city":"Oslo & more"}'],
        ),
        (
            posted(7, CITY),
            ["-H", "Content-Type: application/json", "-d", '{"city":"Oslo & more"}'],
        ),
    ],
)
def test_a_body_is_sent_in_its_form(called: Endpoint, words: list[str]) -> None:
    assert shlex.split(curl(called)) == ["curl", "-i", URL, *words]
    assert explain_body(called) == ""


def test_a_body_of_an_unknown_form_has_a_reason_in_place_of_a_command() -> None:
    called = posted("application/protobuf", CITY)
    assert curl(called) == ""
    assert "application/protobuf" in explain_body(called)


@pytest.mark.skipif(not CURL, reason="curl is not installed")
def test_curl_sends_the_texts_of_a_form_as_they_are() -> None:
    texts = ["a\nb", "a;\tb", '"\\n"', "\\", "a,\\", "(a", " a ", "<a", "@a", "a;type=x/y", '"']
    content = {f"n{number}": Raw(json.dumps(text)) for number, text in enumerate(texts)}
    words = curl_words(MULTIPART, content, is_whole=False)
    assert words is not None
    with misbehaving(lambda exchange: exchange.respond({})) as server:
        subprocess.run([CURL, "-s", server.url, *words], check=True, capture_output=True)
    (request,) = server.requests
    head = f"Content-Type: {request.headers['Content-Type']}\n\n".encode()
    form = message_from_bytes(head + request.body, policy=HTTP)
    assert [part.get_payload() for part in form.iter_parts()] == texts


@pytest.mark.parametrize("media_type", [MULTIPART, "text/plain"])
@pytest.mark.parametrize("text", ["a\nb", "a\rb", "a\0b", "a\x1bb", "a\u202eb"])
def test_a_text_that_is_not_printable_has_no_command(media_type: str, text: str) -> None:
    is_whole = media_type == "text/plain"
    assert curl(posted(media_type, {"name": "a", "example": text}, wholeBody=is_whole)) == ""
    assert curl(posted(media_type, {"name": "a", "example": "ab"}, wholeBody=is_whole))


@given(st.text(), st.text(min_size=1), st.sampled_from([MULTIPART, FORM, "text/plain"]))
def test_a_value_of_a_seller_never_names_a_file(value: str, name: str, media_type: str) -> None:
    """No option that reads files gets a text which begins with one of its marks."""
    content = {name: Raw(json.dumps(value).encode())}
    is_whole = media_type == "text/plain"
    sent = curl_words(media_type, content, is_whole=is_whole)
    assert sent is not None
    *_, option, word = sent
    if option == "-F":
        part = word.partition("=")[2]
        assert part == "@file" or not part.startswith(("@", "<"))
    elif option == "--data-urlencode":
        assert "@" not in word.partition("=")[0]
    else:
        assert option == "--data-raw" or word == "@file" or not word.startswith("@")


@pytest.mark.parametrize(
    ("media_type", "content", "is_whole", "expected"),
    [
        ("application/json", {"a": 1}, False, b'{"a":1}'),
        ("application/json", {"body": [1]}, True, b"[1]"),
        (FORM, {"a b": "c&d", "n": 1}, False, b"a%20b=c%26d&n=1"),
        ("text/plain", {"body": "x"}, True, b"x"),
        (MULTIPART, {"a": "x"}, False, None),
        ("application/protobuf", {"a": "x"}, False, None),
        ("text/plain", {"body": "@file"}, True, None),
    ],
)
def test_a_prober_sends_what_it_can_write(
    media_type: str, content: Json, is_whole: bool, expected: bytes | None
) -> None:
    raw = {name: Raw(json.dumps(value).encode()) for name, value in content.items()}
    assert encode_body(media_type, raw, is_whole=is_whole) == expected
