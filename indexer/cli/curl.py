"""The `curl` command that calls an endpoint; text of the record stays within shell quotes."""

from __future__ import annotations

import re
import shlex
from urllib.parse import parse_qsl, quote, urlencode

import msgspec
from msgspec import UNSET, Raw

from indexer.text import escape_json
from indexer.x402.untrusted import decode
from service.records import Endpoint, ParameterDescriptor

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")
URL_CHARACTERS = "%/:?#[]@!$&()*+,;=~{}"
"""Characters that stay in a URL; others are percent-encoded, an apostrophe among them."""
PLACEHOLDER_VALUES = {
    "string": Raw(b'"..."'),
    "number": Raw(b"1"),
    "boolean": Raw(b"true"),
    "array": Raw(b"[]"),
    "object": Raw(b"{}"),
}

_words = re.compile(r"[A-Z]+")
_placeholder = re.compile(r"\{(\w+)\}|(?<=/):([A-Za-z_]\w*)")


def make_curl_command(endpoint: Endpoint) -> str:
    """Return a `curl` command with examples of the required parameters.

    It is that of the page for people, and empty where the URL is not of the web. Of a body that
    requires no parameter all are sent.
    """
    if not endpoint.url.lower().startswith(("http://", "https://")):
        return ""
    body = [parameter for parameter in endpoint.parameters or [] if parameter.group == "body"]
    sent = [parameter for parameter in body if parameter.required is True] or body
    default_method = "POST" if body else "GET"
    method = _method(endpoint.method, default_method)
    url = _fill_url(endpoint.url, endpoint.parameters or [])
    words = ["curl", "-i"]
    if set(url) & set("[]{}"):
        words.append("--globoff")
    if method == "HEAD":
        words.append("--head")
    elif method != default_method:
        words += ["-X", method]
    words.append(url)
    if body:
        values = {parameter.name: _example(parameter) for parameter in sent}
        words += ["-H", "Content-Type: application/json"]
        words += ["-d", escape_json(msgspec.json.encode(values).decode())]
    return shlex.join(words)


def _fill_url(url: str, parameters: list[ParameterDescriptor]) -> str:
    """Return the URL with its placeholders and its required query parameters filled in."""
    path = {each.name: _text(_example(each)) for each in parameters if each.group == "path"}

    def fill(placeholder: re.Match[str]) -> str:
        name = placeholder[1] or placeholder[2]
        return quote(path[name], safe="") if name in path else placeholder[0]

    filled = quote(_placeholder.sub(fill, url.partition("#")[0]), safe=URL_CHARACTERS)
    given = {name for name, _ in parse_qsl(filled.partition("?")[2], keep_blank_values=True)}
    query = [
        (each.name, _text(_example(each)))
        for each in parameters
        if each.group == "query" and each.required is True and each.name not in given
    ]
    if not query:
        return filled
    return f"{filled}{'&' if '?' in filled else '?'}{urlencode(query)}"


def _example(parameter: ParameterDescriptor) -> Raw:
    """Return the first value that the record gives, or a placeholder of the type."""
    for raw in (parameter.example, parameter.default, *(parameter.enum_values or [])):
        if raw is not UNSET and bytes(raw).strip() not in (b"null", b'""'):
            return raw
    return PLACEHOLDER_VALUES[parameter.type]


def _text(raw: Raw) -> str:
    """Return a JSON value as it stands in a URL."""
    value = decode(raw)
    if isinstance(value, list):
        return ",".join(map(str, value))
    return value if isinstance(value, str) else bytes(raw).decode()


def _method(text: str, default: str) -> str:
    """Return the first known method in a text such as `GET, POST`."""
    known = (word for word in _words.findall(text.upper()) if word in METHODS)
    return next(known, default)
