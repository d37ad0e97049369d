"""The command that calls an endpoint; nothing that a record says gets out of its quotes."""

from __future__ import annotations

import re
import shlex
from urllib.parse import parse_qsl, quote, urlencode

import msgspec
from msgspec import UNSET, Raw

from indexer.text import escape_json
from indexer.x402.untrusted import decoded
from service.records import Endpoint, ParameterDescriptor

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")
KEPT = "%/:?#[]@!$&()*+,;=~{}"
"""What a URL may hold as it is; all else is percent-encoded, an apostrophe too."""

ANYTHING = {
    "string": Raw(b'"..."'),
    "number": Raw(b"1"),
    "boolean": Raw(b"true"),
    "array": Raw(b"[]"),
    "object": Raw(b"{}"),
}

_words = re.compile(r"[A-Z]+")
_placeholder = re.compile(r"\{(\w+)\}|(?<=/):([A-Za-z_]\w*)")


def curl(endpoint: Endpoint) -> str:
    """A `curl` command with examples of what is required; empty where there is no web address.

    The page for people makes the same. Of a body that requires nothing all is sent.
    """
    if not endpoint.url.lower().startswith(("http://", "https://")):
        return ""
    body = [parameter for parameter in endpoint.parameters or [] if parameter.group == "body"]
    needed = [parameter for parameter in body if parameter.required is True] or body
    method = _method(endpoint.method, "POST" if body else "GET")
    url = _address(endpoint.url, endpoint.parameters or [])
    words = ["curl", "-i"]
    if set(url) & set("[]{}"):
        words.append("--globoff")
    if method == "HEAD":
        words.append("--head")
    elif method != ("POST" if body else "GET"):
        words += ["-X", method]
    words.append(url)
    if body:
        values = {parameter.name: _example(parameter) for parameter in needed}
        words += ["-H", "Content-Type: application/json"]
        words += ["-d", escape_json(msgspec.json.encode(values).decode())]
    return shlex.join(words)


def _address(url: str, parameters: list[ParameterDescriptor]) -> str:
    """The URL with its placeholders and what is required of its query filled in."""
    path = {each.name: _text(_example(each)) for each in parameters if each.group == "path"}

    def fill(placeholder: re.Match[str]) -> str:
        name = placeholder[1] or placeholder[2]
        return quote(path[name], safe="") if name in path else placeholder[0]

    filled = quote(_placeholder.sub(fill, url.partition("#")[0]), safe=KEPT)
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
    """What may be sent: the first that the record names, or anything of the type."""
    named = [parameter.example, parameter.default, *(parameter.enum_values or [])]
    for raw in named:
        if raw is not UNSET and bytes(raw).strip() not in (b"null", b'""'):
            return raw
    return ANYTHING[parameter.type]


def _text(raw: Raw) -> str:
    """A value as it stands in a URL."""
    value = decoded(raw)
    if isinstance(value, list):
        return ",".join(map(str, value))
    return value if isinstance(value, str) else bytes(raw).decode()


def _method(given: str, otherwise: str) -> str:
    """The first that is known of what may be a list of methods."""
    known = (word for word in _words.findall(given.upper()) if word in METHODS)
    return next(known, otherwise)
