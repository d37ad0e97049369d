"""Parameters of an operation: of its path, its query and its JSON body.

Headers and cookies are left out, as those of x402 feeds are. Of a schema stay the members that
describe a parameter, so that a schema that many operations share adds little to each.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from indexer.documents.resource import Schema
from indexer.openapi.references import REF, References
from indexer.x402.untrusted import mapping, text

MAX_PARAMETERS = 100  # of one operation, and as many in its body
MAX_NAME = 200  # characters
MAX_DESCRIPTION = 1_000
MAX_VALUE = 4 * 1024  # characters of an example, a default, or the values of an enumeration
MAX_ALTERNATIVES = 8
MAX_VISITED = 100  # schemas that the body of one operation is made of
PLACES = ("path", "query")
BODY = "body"


def read_parameters(
    operation: dict[str, Any], item: dict[str, Any], references: References
) -> dict[str, Schema]:
    """Return the JSON Schemas of the parameters of an operation, by their groups."""
    groups: dict[str, Schema] = {}
    for given in (operation.get("parameters"), item.get("parameters")):
        for each in given[:MAX_PARAMETERS] if isinstance(given, list) else ():
            _add_parameter(groups, references.follow(each), references)
    if body := _read_body(operation, references):
        groups[BODY] = body
    return groups


def _add_parameter(groups: dict[str, Schema], parameter: dict[str, Any], refs: References) -> None:
    """Add a parameter unless the operation itself has it; that of a path comes after those."""
    name, place = text(parameter.get("name"), MAX_NAME), parameter.get("in")
    if not name or place not in PLACES:
        return
    group = groups.setdefault(place, {"type": "object", "properties": {}, "required": []})
    if name in group["properties"]:
        return
    contents = [*islice(mapping(parameter, "content").values(), 1)]
    content = contents[0] if contents and isinstance(contents[0], dict) else {}
    schema = _outline(parameter.get("schema", content.get("schema")), refs)
    if description := text(parameter.get("description"))[:MAX_DESCRIPTION]:
        schema["description"] = description
    named = [*islice(mapping(parameter, "examples").values(), 1)]
    example = parameter.get("example", refs.follow(named[0]).get("value") if named else None)
    if example is not None and _fits(example):
        schema["example"] = example
    group["properties"][name] = schema
    if parameter.get("required") is True:
        group["required"].append(name)


def _read_body(operation: dict[str, Any], references: References) -> Schema:
    """Return the schema of the JSON body, whose members are parameters; empty without any."""
    body = references.follow(operation.get("requestBody"))
    content = mapping(body, "content")
    media = next((name for name in islice(content, MAX_ALTERNATIVES) if _is_json(name)), "")
    schema = references.follow(mapping(content, media).get("schema"))
    if not schema or REF in schema:
        return {"type": "object", "properties": {}} | schema
    members = _Members(references)
    members.add(schema, is_required=True)
    if members.properties:
        return {
            "type": "object",
            "properties": members.properties,
            "required": [*dict.fromkeys(members.required)],
        }
    outline = _outline(schema, references)
    if outline.get("type") == "object" or not outline:
        return {}
    required = [BODY] if body.get("required") is True else []
    return {"type": "object", "properties": {BODY: outline}, "required": required}


class _Members:
    """The members of an object, collected from a schema and those that it is composed of."""

    def __init__(self, references: References) -> None:
        self.properties: Schema = {}
        self.required: list[str] = []
        self._references = references
        self._visited: set[int] = set()

    def add(self, value: Any, *, is_required: bool) -> None:
        """Add the members of a schema; of alternatives none is required."""
        schema = self._references.follow(value)
        if id(schema) in self._visited or len(self._visited) >= MAX_VISITED:
            return
        self._visited.add(id(schema))
        for name, each in islice(mapping(schema, "properties").items(), MAX_PARAMETERS):
            is_new = name not in self.properties and len(self.properties) < MAX_PARAMETERS
            if is_new and text(name, MAX_NAME):
                self.properties[name] = _outline(each, self._references)
        required = schema.get("required")
        if is_required and isinstance(required, list):
            names = [name for name in required[:MAX_PARAMETERS] if isinstance(name, str)]
            self.required += names
        for key in ("allOf", "anyOf", "oneOf"):
            for each in _schemas(schema, key):
                self.add(each, is_required=is_required and key == "allOf")


def _outline(value: Any, references: References, levels: int = 2) -> Schema:
    """Return the members of a schema that describe a parameter, in a new object."""
    schema = references.follow(value)
    outline: Schema = {}
    if levels:
        for each in _schemas(schema, "allOf"):
            outline |= _outline(each, references, levels - 1)
    names = ("type", "enum", "default", "example", REF)
    outline |= {name: schema[name] for name in names if name in schema and _fits(schema[name])}
    if _fits(constant := schema.get("const")) and constant is not None:
        outline["enum"] = [constant]
    examples = schema.get("examples")
    if isinstance(examples, list) and examples and _fits(examples[0]):
        outline["examples"] = examples[:1]
    outline |= {key: {} for key in ("items", "properties") if isinstance(schema.get(key), dict)}
    for key in ("anyOf", "oneOf") if levels else ():
        if alternatives := _schemas(schema, key):
            outline[key] = [_outline(each, references, levels - 1) for each in alternatives]
    given = value if isinstance(value, dict) else {}
    words = text(given.get("description")) or text(schema.get("description"))
    if words:
        outline["description"] = words[:MAX_DESCRIPTION]
    return outline


def _schemas(schema: dict[str, Any], key: str) -> list[Any]:
    value = schema.get(key)
    return value[:MAX_ALTERNATIVES] if isinstance(value, list) else []


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
