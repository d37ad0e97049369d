"""Schemas of OpenAPI documents: the parameters and the bodies of operations.

References within the document are followed, those to other documents never. Of a schema stay the
members that describe a parameter, so that one that many operations share adds little to each.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any
from urllib.parse import unquote

import msgspec

from indexer.resources.parameters import BODY
from indexer.untrusted import items, mapping, text

Schema = dict[str, Any]

MAX_NAME = 200  # characters
MAX_PARAMETERS = 100  # of one operation, and as many in its body
MAX_DESCRIPTION = 1_000  # characters
MAX_VALUE = 4 * 1024  # characters of an example, a default or the values of a parameter
MAX_ALTERNATIVES = 8
MAX_POINTER = 1_000  # characters
MAX_HOPS = 16
PLACES = ("path", "query")
REF = "$ref"
NOTHING: Schema = {}
COMBINED = ("allOf", "anyOf", "oneOf")
KEPT = ("type", "enum", "default", "example", "examples", "const", REF)
"""Members of a schema that describe a parameter."""
PREFERRED = ("json", "form-data", "urlencoded", "")
"""Parts of the names of media types, the preferred first."""

_encode = msgspec.json.Encoder(decimal_format="number").encode


class Schemas:
    """Reads the input of the operations of one document, and each shared schema once."""

    def __init__(self, values: Schema) -> None:
        self._values = values
        self._external: dict[str, Schema] = {}
        self._outlines: dict[int, Schema] = {}
        self._fitting: dict[int, bool] = {}

    def follow(self, value: Any) -> Schema:
        """Return the object that a value is or refers to in the document, or an empty one.

        References to other documents are returned as they are. A value always gives the same
        object, so that its id is a key.
        """
        for _ in range(MAX_HOPS):
            if not isinstance(value, dict):
                break
            pointer = value.get(REF)
            if not isinstance(pointer, str):
                return value
            if not pointer.startswith("#"):
                return self._external.setdefault(pointer, {REF: pointer[:MAX_POINTER]})
            value = self._values if len(pointer) <= MAX_POINTER else None
            for part in pointer.split("/")[1:]:
                key = unquote(part).replace("~1", "/").replace("~0", "~")
                if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
                    value = value[int(key)]
                else:
                    value = value.get(key) if isinstance(value, dict) else None
        return NOTHING

    def declare(self, operation: Schema, item: Schema) -> tuple[Schema, bool]:
        """Return the input of an operation, and whether its body is one parameter.

        The input has a JSON Schema for each group of parameters. Those of the path come after those
        of the operation. Headers and cookies are none.
        """
        groups: Schema = {}
        for values in (operation, item):
            for each in items(values, "parameters", MAX_PARAMETERS):
                parameter = self.follow(each)
                name, group = text(parameter.get("name"), MAX_NAME), parameter.get("in")
                if not name or group not in PLACES:
                    continue
                known = groups.setdefault(group, {"properties": {}, "required": []})
                if name not in known["properties"]:
                    known["properties"][name] = self._read_parameter(parameter)
                    known["required"] += [name] if parameter.get("required") is True else []
        body = self.follow(operation.get("requestBody"))
        content = mapping(body, "content")
        media = min(islice(content, MAX_ALTERNATIVES), key=_preference, default="")
        if members := self._read_body(self.follow(mapping(content, media).get("schema"))):
            groups[BODY] = members
        elif whole := self._read_whole(mapping(content, media).get("schema"), media):
            required = [BODY] if body.get("required") is True else []
            groups[BODY] = {"properties": {BODY: whole}, "required": required}
            return {"input": groups, "bodyType": media}, True
        return {"input": groups, "bodyType": media}, False

    def _read_whole(self, schema: Any, media: str) -> Schema:
        """Return what describes a body that has no members, empty for an object and for none."""
        outline = self._outline(schema)
        if not any(outline.values()):
            return {"type": "string"} if media and _preference(media) else {}
        return {} if outline.get("type") == "object" else outline

    def _read_parameter(self, parameter: Schema) -> Schema:
        content = next(iter(mapping(parameter, "content").values()), None)
        schema = parameter.get("schema", mapping({"": content}, "").get("schema"))
        outline = self._outline(schema) | _description_of(parameter)
        named = next(iter(mapping(parameter, "examples").values()), None)
        example = parameter.get("example", self.follow(named).get("value"))
        if example is not None and self._fits(example):
            outline["example"] = example
        return outline

    def _read_body(self, schema: Schema) -> Schema:
        """Return the members of a body, and of the schemas that it is composed of."""
        properties: Schema = {}
        parts = [schema, *self._parts(schema, COMBINED)]
        for part in parts:
            for name, value in islice(mapping(part, "properties").items(), MAX_PARAMETERS):
                if text(name, MAX_NAME):
                    properties.setdefault(name, value)
        required = [
            name
            for part in (schema, *self._parts(schema, ("allOf",)))  # of alternatives none is
            for name in items(part, "required", MAX_PARAMETERS)
        ]
        members = islice(properties.items(), MAX_PARAMETERS)
        outlines = {name: self._outline(value) for name, value in members}
        return {"properties": outlines, "required": required} if outlines else {}

    def _parts(self, schema: Schema, keys: Iterable[str]) -> list[Schema]:
        """Return the schemas that one is composed of, at one level."""
        parts = (each for key in keys for each in items(schema, key, MAX_ALTERNATIVES))
        return [*map(self.follow, parts)]

    def _outline(self, value: Any) -> Schema:
        """Return the members of a schema, and of its parts, that describe a parameter."""
        if not isinstance(value, dict):
            return NOTHING
        schema = self.follow(value)
        if id(schema) not in self._outlines:
            outline: Schema = {}
            for part in (*self._parts(schema, ("allOf",)), schema):
                outline |= self._keep(part)
            for key in ("anyOf", "oneOf"):
                outline |= {key: [*map(self._keep, self._parts(schema, [key]))]}
            self._outlines[id(schema)] = outline
        return self._outlines[id(schema)] | _description_of(value)

    def _keep(self, schema: Schema) -> Schema:
        """Return the members of one schema that are kept."""
        kept = {name: schema[name] for name in KEPT if name in schema and self._fits(schema[name])}
        kept |= {name: {} for name in ("items", "properties") if name in schema}
        if "const" in kept:
            kept["enum"] = [kept.pop("const")]
        return kept | _description_of(schema)

    def _fits(self, value: Any) -> bool:
        """Whether a value of the document is short enough to be kept."""
        if id(value) not in self._fitting:
            self._fitting[id(value)] = len(_encode(value)) <= MAX_VALUE
        return self._fitting[id(value)]


def _description_of(values: Schema) -> Schema:
    """Return the description of a schema or a parameter, cut to what is kept of one."""
    words = text(values.get("description"))
    return {"description": words[:MAX_DESCRIPTION]} if words else {}


def refers_outside(declared: Schema) -> bool:
    """Whether a schema of a declared input refers to another document, which is never fetched."""
    groups = [*declared["input"].values()]
    members = [each for group in groups for each in mapping(group, "properties").values()]
    return any(REF in each for each in [*groups, *members])


def _preference(media: str) -> int:
    name = media.partition(";")[0].strip().lower()
    if name in {"*/*", "application/*"}:
        return 0
    return next(number for number, part in enumerate(PREFERRED) if part in name)
