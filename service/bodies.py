"""Bodies of requests: their media types, and the words of curl that send them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Raw

from service.schema.records import Endpoint

JSON_TYPE = "application/json"
MULTIPART = "multipart/form-data"
FORM = "application/x-www-form-urlencoded"
TEXT = "text/plain"
BYTES = "application/octet-stream"
FILE = "@file"
"""The example of a parameter that is a file: curl sends the file of this name."""

_media_type = re.compile(r"[a-z]+/[a-z0-9.+*-]+")
_special = re.compile(r'^[@<"(\s]|[;,\n\r]|\s$')
_string = msgspec.json.Decoder(str)


def media_type_of(body_type: object) -> str:
    """Return the media type that an endpoint states of its body; other values are JSON."""
    stated = body_type if isinstance(body_type, str) else JSON_TYPE
    return stated if _media_type.fullmatch(stated) else JSON_TYPE


def is_json(media_type: str) -> bool:
    """Whether a body is written as JSON."""
    return media_type == JSON_TYPE or media_type.endswith("+json")


def explain_body(endpoint: Endpoint) -> str:
    """Return why no command can write the body of an endpoint, or an empty string."""
    media_type = media_type_of(endpoint.body_type)
    if endpoint.whole_body is True or is_json(media_type) or media_type in (MULTIPART, FORM):
        return ""
    if not any(each.group == "body" for each in endpoint.parameters or []):
        return ""
    return f"its body is {media_type}, which no command here can write; ask its documentation"


def curl_words(media_type: str, content: Mapping[str, Raw], *, is_whole: bool) -> list[str] | None:
    """Return the words of curl that send a body, None for a body that these cannot write."""
    if is_json(media_type):
        value: Any = next(iter(content.values())) if is_whole else content
        header = f"Content-Type: {media_type}"
        return ["-H", header, "-d", escape_json(msgspec.json.encode(value).decode())]
    texts = {name: text_of(value) for name, value in content.items()}
    if is_whole:
        return _whole(media_type, next(iter(texts.values())))
    if media_type == FORM:
        return [word for name, text in texts.items() for word in _pair(quote(name, safe=""), text)]
    if media_type == MULTIPART:
        return [word for name, text in texts.items() for word in ("-F", _part(name, text))]
    return None


def encode_body(media_type: str, content: Mapping[str, Raw], *, is_whole: bool) -> bytes | None:
    """Return a body in bytes, None for one of several parts or of an unknown form."""
    if is_json(media_type):
        value: Any = next(iter(content.values())) if is_whole else content
        return msgspec.json.encode(value)
    texts = {name: text_of(value) for name, value in content.items()}
    if FILE in texts.values():
        return None
    if is_whole:
        return next(iter(texts.values())).encode()
    if media_type != FORM:
        return None
    pairs = (f"{quote(name, safe='')}={quote(text, safe='')}" for name, text in texts.items())
    return "&".join(pairs).encode()


def text_of(raw: Raw) -> str:
    """Return a JSON value as text: a string without quotes."""
    try:
        return _string.decode(raw)
    except msgspec.MsgspecError:
        return bytes(raw).decode()


def escape_json(text: str) -> str:
    """Return equivalent JSON on one line, with unprintable characters escaped."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else _escape(letter) for letter in text)


def _escape(letter: str) -> str:
    if letter in "\t\n\r":  # JSON has these between tokens only
        return " "
    units = letter.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _whole(media_type: str, text: str) -> list[str]:
    """Return the words that send a text as it is, or the file of a body of bytes.

    A text that begins with `@` would name a file to `--data-binary`.
    """
    is_file = text == FILE or (media_type == BYTES and text == "...")
    option = "--data-raw" if text.startswith("@") and not is_file else "--data-binary"
    return ["-H", f"Content-Type: {media_type}", option, FILE if is_file else text]


def _pair(name: str, text: str) -> tuple[str, str]:
    """Return the words that send a pair of a form, encoded by curl where a person can read it."""
    if text.isprintable():
        return "--data-urlencode", f"{name}={text}"
    return "--data-raw", f"{name}={quote(text, safe='')}"


def _part(name: str, text: str) -> str:
    r"""Return a part of a form, quoted where curl would read its text otherwise.

    Within quotes curl knows the escapes `\\` and `\"`, and no others.
    """
    quoted_name = name.replace("=", "%3D")
    if text == FILE or not _special.search(text):
        return f"{quoted_name}={text}"
    escaped = text.replace("\\", r"\\").replace('"', r"\"")
    return f'{quoted_name}="{escaped}"'
