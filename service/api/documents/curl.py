"""The curl command that calls an endpoint, safe to paste into a shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import quote, unquote_plus, urlencode

import msgspec
from msgspec import UNSET, Raw

from service.bodies import curl_words, media_type_of, text_of
from service.schema.records import METHODS, Endpoint, ParameterDescriptor
from service.urls import PATH_PARAMETER, path_parameters

URL_CHARACTERS = "%/:?#[]@!$&()*+,;=~{}"
"""Characters that are not percent-encoded in a URL."""
MAX_CALL = 8_000
"""Characters of a URL and bytes of the values in a command. Nobody reads or pastes a longer one."""

PLACEHOLDERS = {
    "string": Raw(b'"..."'),
    "number": Raw(b"1"),
    "boolean": Raw(b"true"),
    "array": Raw(b"[]"),
    "object": Raw(b"{}"),
}
"""Values of parameters without example, default or enumerated values, by type."""

WITHOUT_BODY = {"GET": 1, "HEAD": 2}
"""Methods that send a body where an endpoint has no other one, HEAD none at all."""

NO_VALUES: Mapping[str, Raw] = MappingProxyType({})

WORD = re.compile(r"[A-Z]+")
_array = msgspec.json.Decoder(list[Raw])


class Call(NamedTuple):
    """The request of a call; a body has the values of its parameters."""

    method: str
    url: str
    content: dict[str, Raw]


def call_of(endpoint: Endpoint, values: Mapping[str, Raw] = NO_VALUES) -> Call | None:
    """Return the request of a call, None if it is too long, not of HTTP, or a HEAD with a body.

    The request has these values of parameters as they are, and examples of the other required
    parameters, or of all of a body that requires none.
    """
    if not endpoint.url.lower().startswith(("http://", "https://")):
        return None
    parameters = endpoint.parameters or []
    content = body_of(parameters, values)
    methods = known_methods(endpoint.method) or ["POST" if content else "GET"]
    if content:
        methods.sort(key=lambda each: WITHOUT_BODY.get(each, 0))
        if methods[0] == "HEAD":
            return None
    query = {
        each.name: _value(each, values)
        for each in parameters
        if each.group == "query" and (each.required is True or each.name in values)
    }
    path = {each.name: _value(each, values) for each in parameters if each.group != "body"}
    placeholders = [path[name] for name in path_parameters(endpoint.url) if name in path]
    size = sum(map(len, chain(content, content.values(), query, query.values(), placeholders)))
    if len(endpoint.url) + size > MAX_CALL:
        return None
    return Call(methods[0], _url(endpoint.url, path, query, values), content)


def curl(endpoint: Endpoint, values: Mapping[str, Raw] = NO_VALUES) -> str:
    """Return the curl command of a call, or an empty string without one.

    An unknown body has no command, and neither has a text that is not printable: what shows it on
    one line would change it.
    """
    call = call_of(endpoint, values)
    if call is None:
        return ""
    method, url, content = call
    words = ["curl", "-i"]
    if set(url) & set("[]{}"):
        words.append("--globoff")
    if method == "HEAD":
        words.append("--head")
    elif method != ("POST" if content else "GET"):
        words += ["-X", method]
    words.append(url)
    if content:
        is_whole = endpoint.whole_body is True
        sent = curl_words(media_type_of(endpoint.body_type), content, is_whole=is_whole)
        if sent is None:
            return ""
        words += sent
    command = shlex.join(words)
    return command if command.isprintable() else ""


def body_of(parameters: Sequence[ParameterDescriptor], values: Mapping[str, Raw]) -> dict[str, Raw]:
    """Return the values of a body: those given, and examples of the required parameters.

    Without any of these, examples of all.
    """
    body = [parameter for parameter in parameters if parameter.group == "body"]
    sent = [each for each in body if each.required is True or each.name in values] or body
    return {each.name: _value(each, values) for each in sent}


def _value(parameter: ParameterDescriptor, values: Mapping[str, Raw]) -> Raw:
    """Return the given value of a parameter, or the first of the record, or a placeholder."""
    if parameter.name in values:
        return values[parameter.name]
    for raw in (parameter.example, parameter.default, *(parameter.enum_values or [])):
        if raw is not UNSET and bytes(raw).strip() not in (b"null", b'""'):
            return raw
    return PLACEHOLDERS[parameter.type]


def known_methods(text: str) -> list[str]:
    """Return the methods of HTTP in a text such as `GET, POST`, and no other words."""
    words = dict.fromkeys(WORD.findall(text.upper()))
    return [word for word in words if word in METHODS]


def _url(
    url: str, path: Mapping[str, Raw], query: Mapping[str, Raw], given: Mapping[str, Raw]
) -> str:
    """Return the URL with values for its placeholders, and for parameters of its query.

    Given values replace those of the URL, examples do not.
    """

    def fill(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return quote(url_text(path[name]), safe="") if name in path else match[0]

    filled = quote(PATH_PARAMETER.sub(fill, url.partition("#")[0]), safe=URL_CHARACTERS)
    address, _, own = filled.partition("?")
    replaced = query.keys() & given.keys()
    kept = [pair for pair in own.split("&") if _name_of(pair) not in replaced]
    present = set(map(_name_of, kept))
    added = [
        urlencode({name: url_text(value)}) for name, value in query.items() if name not in present
    ]
    if not added:
        return filled
    return f"{address}?{'&'.join([*filter(None, kept), *added])}"


def _name_of(pair: str) -> str:
    return unquote_plus(pair.partition("=")[0])


def url_text(raw: Raw) -> str:
    """Return a JSON value for a URL: strings without quotes, arrays joined by commas."""
    try:
        values = _array.decode(raw)
    except msgspec.MsgspecError:
        values = [raw]
    return ",".join(map(text_of, values))
