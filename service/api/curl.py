"""The curl command that calls an endpoint, safe to paste into a shell."""

from __future__ import annotations

import re
import shlex
from urllib.parse import parse_qsl, quote, urlencode

import msgspec
from msgspec import UNSET, Raw

from service.records import Endpoint, ParameterDescriptor

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")
URL_CHARACTERS = "%/:?#[]@!$&()*+,;=~{}"
"""Characters that are not percent-encoded in a URL."""

PLACEHOLDERS = {
    "string": Raw(b'"..."'),
    "number": Raw(b"1"),
    "boolean": Raw(b"true"),
    "array": Raw(b"[]"),
    "object": Raw(b"{}"),
}
"""Values of parameters without example, default or enumerated values, by type."""

_word = re.compile(r"[A-Z]+")
_path_parameter = re.compile(r"\{(\w+)\}|(?<=/):([A-Za-z_]\w*)")
_string = msgspec.json.Decoder(str)
_array = msgspec.json.Decoder(list[Raw])


def curl(endpoint: Endpoint) -> str:
    """Return a curl command with example values, or an empty string if the URL is not HTTP.

    The command sends the required parameters, or all of a body that requires none.
    """
    if not endpoint.url.lower().startswith(("http://", "https://")):
        return ""
    parameters = endpoint.parameters or []
    body = [parameter for parameter in parameters if parameter.group == "body"]
    default_method = "POST" if body else "GET"
    method = _method(endpoint.method, default_method)
    url = _url(endpoint.url, parameters)
    words = ["curl", "-i"]
    if set(url) & set("[]{}"):
        words.append("--globoff")
    if method == "HEAD":
        words.append("--head")
    elif method != default_method:
        words += ["-X", method]
    words.append(url)
    if body:
        required = [parameter for parameter in body if parameter.required is True]
        values = {parameter.name: _example(parameter) for parameter in required or body}
        words += ["-H", "Content-Type: application/json"]
        words += ["-d", escape_json(msgspec.json.encode(values).decode())]
    return shlex.join(words)


def path_parameters(url: str) -> list[str]:
    """Return the names of the placeholders in the path of a URL."""
    return [match[1] or match[2] for match in _path_parameter.finditer(url.partition("#")[0])]


def escape_json(text: str) -> str:
    """Return equivalent JSON on one line, with unprintable characters escaped."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else _escape(letter) for letter in text)


def _url(url: str, parameters: list[ParameterDescriptor]) -> str:
    """Return the URL with its path parameters and its required query parameters filled in."""
    path = {
        parameter.name: _url_text(_example(parameter))
        for parameter in parameters
        if parameter.group == "path"
    }

    def fill(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return quote(path[name], safe="") if name in path else match[0]

    filled = quote(_path_parameter.sub(fill, url.partition("#")[0]), safe=URL_CHARACTERS)
    given = {name for name, _ in parse_qsl(filled.partition("?")[2], keep_blank_values=True)}
    query = [
        (parameter.name, _url_text(_example(parameter)))
        for parameter in parameters
        if parameter.group == "query" and parameter.required is True and parameter.name not in given
    ]
    if not query:
        return filled
    return f"{filled}{'&' if '?' in filled else '?'}{urlencode(query)}"


def _example(parameter: ParameterDescriptor) -> Raw:
    """Return the first value that the record gives for a parameter, or a placeholder."""
    for raw in (parameter.example, parameter.default, *(parameter.enum_values or [])):
        if raw is not UNSET and bytes(raw).strip() not in (b"null", b'""'):
            return raw
    return PLACEHOLDERS[parameter.type]


def _url_text(raw: Raw) -> str:
    """Return a JSON value for a URL: strings without quotes, arrays joined by commas."""
    try:
        values = _array.decode(raw)
    except msgspec.MsgspecError:
        values = [raw]
    return ",".join(map(_unquote, values))


def _unquote(raw: Raw) -> str:
    try:
        return _string.decode(raw)
    except msgspec.MsgspecError:
        return bytes(raw).decode()


def _method(methods: str, default: str) -> str:
    """Return the first known method in a text such as `GET, POST`."""
    return next((word for word in _word.findall(methods.upper()) if word in METHODS), default)


def _escape(letter: str) -> str:
    if letter in "\t\n\r":  # JSON has these between tokens only
        return " "
    units = letter.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
