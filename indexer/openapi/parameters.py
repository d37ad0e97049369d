"""Parameters of an operation: of its path, its query and its JSON body.

Headers and cookies are left out, as those of x402 feeds are. Of a schema stay the members that
describe a parameter, so that a schema that many operations share adds little to each.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from indexer.documents.resource import Schema
from indexer.openapi.references import REF, References
from indexer.resources.parameters import BODY
from indexer.untrusted import items, mapping, text

MAX_PARAMETERS = 100  # of one operation, and as many in its body
MAX_NAME = 200  # characters
MAX_DESCRIPTION = 1_000
MAX_VALUE = 4 * 1024  # characters of an example, a default, the values or the alternatives
MAX_ALTERNATIVES = 8
MAX_VISITED = 100  # schemas that the body of one operation is made of
PLACES = ("path", "query")


class Parameters:
    """Reads the parameters of the operations of one document, and each shared schema once."""

    def __init__(self, references: References) -> None:
        self._references = references
        self._outlines: dict[tuple[int, int], Schema] = {}
        self._bodies: dict[int, Schema] = {}

    def read(self, operation: dict[str, Any], item: dict[str, Any]) -> dict[str, Schema]:
        """Return the JSON Schemas of the parameters of an operation, by their groups.

        Those of its path come after its own.
        """
        groups: dict[str, Schema] = {}
        for values in (operation, item):
            for each in items(values, "parameters", MAX_PARAMETERS):
                self._add(groups, self._references.follow(each))
        if body := self._read_body(operation):
            groups[BODY] = body
        return groups

    def _add(self, groups: dict[str, Schema], parameter: dict[str, Any]) -> None:
        """Add a parameter unless there is one of its name."""
        name, place = text(parameter.get("name"), MAX_NAME), parameter.get("in")
        if not name or place not in PLACES:
            return
        group = groups.setdefault(place, {"type": "object", "properties": {}, "required": []})
        if name in group["properties"]:
            return
        contents = [*islice(mapping(parameter, "content").values(), 1)]
        content = contents[0] if contents and isinstance(contents[0], dict) else {}
        schema = dict(self._outline(parameter.get("schema", content.get("schema"))))
        if description := text(parameter.get("description"))[:MAX_DESCRIPTION]:
            schema["description"] = description
        named = [*islice(mapping(parameter, "examples").values(), 1)]
        first = self._references.follow(named[0]).get("value") if named else None
        example = parameter.get("example", first)
        if example is not None and _fits(example):
            schema["example"] = example
        group["properties"][name] = schema
        if parameter.get("required") is True:
            group["required"].append(name)

    def _read_body(self, operation: dict[str, Any]) -> Schema:
        """Return the schema of the JSON body, empty without any."""
        body = self._references.follow(operation.get("requestBody"))
        content = mapping(body, "content")
        media = next((name for name in islice(content, MAX_ALTERNATIVES) if _is_json(name)), "")
        schema = self._references.follow(mapping(content, media).get("schema"))
        if id(schema) not in self._bodies:
            self._bodies[id(schema)] = self._read_members(schema)
        members = self._bodies[id(schema)]
        if members or not schema:
            return members
        outline = self._outline(schema)
        if outline.get("type") == "object" or not outline:
            return {}
        required = [BODY] if body.get("required") is True else []
        return {"type": "object", "properties": {BODY: outline}, "required": required}

    def _read_members(self, schema: dict[str, Any]) -> Schema:
        """Return the object that a schema is composed of, empty for one that has no members."""
        if REF in schema:
            return {"type": "object", "properties": {}} | schema
        properties: Schema = {}
        required: dict[str, None] = {}
        visited: set[int] = set()
        waiting = [(schema, True)]
        while waiting and len(visited) < MAX_VISITED:
            each, is_required = waiting.pop()
            if id(each) in visited:
                continue
            visited.add(id(each))
            for name, value in islice(mapping(each, "properties").items(), MAX_PARAMETERS):
                is_new = name not in properties and len(properties) < MAX_PARAMETERS
                if is_new and text(name, MAX_NAME):
                    properties[name] = self._outline(value)
            names = items(each, "required", MAX_PARAMETERS) if is_required else ()
            for name in names:  # of alternatives none is required
                if isinstance(name, str):
                    required[name] = None
            parts = [
                (self._references.follow(part), is_required and key == "allOf")
                for key in ("allOf", "anyOf", "oneOf")
                for part in items(each, key, MAX_ALTERNATIVES)
            ]
            waiting += reversed(parts)
        if not properties:
            return {}
        return {"type": "object", "properties": properties, "required": [*required]}

    def _outline(self, value: Any, levels: int = 1) -> Schema:
        """Return the members of a schema that describe a parameter."""
        if not isinstance(value, dict):
            return {}
        key = id(value), levels
        if key not in self._outlines:
            self._outlines[key] = self._make_outline(value, levels)
        return self._outlines[key]

    def _make_outline(self, value: dict[str, Any], levels: int) -> Schema:
        schema = self._references.follow(value)
        outline: Schema = {}
        for each in items(schema, "allOf", MAX_ALTERNATIVES) if levels else ():
            outline |= self._outline(each, levels - 1)
        names = ("type", "enum", "default", "example", REF)
        outline |= {name: schema[name] for name in names if name in schema and _fits(schema[name])}
        if (constant := schema.get("const")) is not None and _fits(constant):
            outline["enum"] = [constant]
        examples = schema.get("examples")
        if isinstance(examples, list) and examples and _fits(examples[0]):
            outline["examples"] = examples[:1]
        nested = ("items", "properties")
        outline |= {name: {} for name in nested if isinstance(schema.get(name), dict)}
        for key in ("anyOf", "oneOf") if levels else ():
            given = items(schema, key, MAX_ALTERNATIVES)
            alternatives = [self._outline(each, levels - 1) for each in given]
            if alternatives and _fits(alternatives):
                outline[key] = alternatives
        words = text(value.get("description")) or text(schema.get("description"))
        if words:
            outline["description"] = words[:MAX_DESCRIPTION]
        return outline


def _fits(value: Any) -> bool:
    """Whether a value of a schema is short, by a look at no more than that of it."""
    room, waiting = MAX_VALUE, [value]
    while waiting and room >= 0:
        each = waiting.pop()
        room -= len(each) + 2 if isinstance(each, (str, list, dict)) else 2
        if room >= 0 and isinstance(each, (list, dict)):
            waiting += each
            waiting += each.values() if isinstance(each, dict) else ()
    return room >= 0


def _is_json(name: str) -> bool:
    media = name.partition(";")[0].strip().lower()
    return media in {"application/json", "*/*", "application/*"} or media.endswith("+json")
