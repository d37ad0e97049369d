"""Declared inputs: how a resource says that it is called, in any of the forms in use.

Version 2 declares examples in `extensions.bazaar.info.input` and a JSON Schema of it beside them;
version 1 describes fields in `outputSchema.input`, each its own way. Whatever cannot be understood
is passed over: a service is worth listing without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from indexer.x402.untrusted import mapping, text
from service.records import ParameterDescriptor

Group = Literal["body", "query", "path"]
Type = Literal["string", "number", "boolean", "array", "object"]

DEEPEST = 32

_GROUPS: dict[str, Group] = {
    "queryparams": "query",
    "query": "query",
    "bodyfields": "body",
    "bodyparams": "body",
    "body": "body",
    "inputschema": "body",
    "pathparams": "path",
}
_TYPES: dict[str, Type] = {
    "string": "string",
    "str": "string",
    "text": "string",
    "file": "string",
    "number": "number",
    "integer": "number",
    "int": "number",
    "float": "number",
    "boolean": "boolean",
    "bool": "boolean",
    "array": "array",
    "list": "array",
    "object": "object",
    "dict": "object",
}
_BODYLESS = frozenset(("", "GET", "HEAD", "DELETE"))

_encoder = msgspec.json.Encoder(decimal_format="number")
_method = re.compile(r"[A-Z][A-Z ,/|]{1,30}")
_placeholder = re.compile(r"/(?::([A-Za-z_]\w*)|\{([^{}/]+)\}|\[([^\[\]/]+)\])(?=[/?]|$)")


class DeclaredInput(Struct):
    """How a resource is called: its method, or the MCP tool that it is; empty when not declared."""

    method: str = ""
    tool: str = ""
    description: str = ""
    parameters: list[ParameterDescriptor] = []


class Descriptor(Struct):
    """One parameter as it is declared: by a schema, an example or both."""

    schema: Any = None
    example: Any = UNSET
    required: bool | UnsetType = UNSET


def read_input(extension: Any, output_schema: Any, url: str) -> DeclaredInput:
    """The input that the Bazaar extension declares, else the output schema of version 1.

    Both are decoded JSON, of any type. Placeholders in the path of the URL are parameters too.
    """
    found: dict[tuple[Group, str], Descriptor] = {}
    declared = mapping(mapping(extension, "info"), "input")
    if declared:
        schema = mapping(mapping(mapping(extension, "schema"), "properties"), "input")
        _collect(found, mapping(schema, "properties"), declared, examples=False)
        _collect(found, declared, declared, examples=True)
    else:
        declared = mapping(output_schema, "input")
        _collect(found, declared, declared, examples=False)
    for names in _placeholder.findall(url):
        found.setdefault(("path", "".join(names)), Descriptor())
    method = text(declared.get("method"), longest=32).strip().upper()
    tool = text(declared.get("tool"), longest=256) if declared.get("type") == "mcp" else ""
    return DeclaredInput(
        method=method if not tool and _method.fullmatch(method) else "",
        tool=tool,
        description=text(declared.get("description")) if tool else "",
        parameters=[_parameter(*key, declared) for key, declared in found.items()],
    )


def _collect(
    found: dict[tuple[Group, str], Descriptor], fields: Any, declared: Any, *, examples: bool
) -> None:
    """Add the parameters of every group; `examples` says that a plain value is one."""
    for key, value in fields.items():
        group = _GROUPS.get(key.replace("_", "").lower())
        if group is not None:
            for name, descriptor in _descriptors(value, examples=examples):
                _merge(found, group, name, descriptor)
    if "properties" in fields and _is_schemas(fields["properties"]) and not examples:
        method = str(declared.get("method", "")).upper()
        for name, descriptor in _descriptors(fields, examples=False):
            _merge(found, "query" if method in _BODYLESS else "body", name, descriptor)
    if examples and declared.get("type") == "mcp":
        for name, value in mapping(declared, "example").items():
            _merge(found, "body", name, Descriptor(example=value))


def _merge(
    found: dict[tuple[Group, str], Descriptor], group: Group, name: str, new: Descriptor
) -> None:
    known = found.setdefault((group, name), new)
    known.schema = known.schema or new.schema
    known.example = new.example if known.example is UNSET else known.example
    known.required = new.required if known.required is UNSET else known.required


def _descriptors(fields: Any, *, examples: bool) -> Iterator[tuple[str, Descriptor]]:
    required: Any = ()
    if isinstance(fields, list):
        fields = {text(mapping({"": field}, "").get("name")): field for field in fields}
    elif isinstance(fields, dict):
        form = next((key for key in ("properties", "fields") if _is_schemas(fields.get(key))), None)
        if form is not None:
            required, fields, examples = fields.get("required"), fields[form], False
        elif fields.get("type") == "object" and not examples:
            return
    else:
        return
    for name, value in fields.items():
        if not name:
            continue
        if isinstance(value, dict) and _is_described(value):
            given = value.get("required")
            if not isinstance(given, bool):
                given = name in required if isinstance(required, list) else UNSET
            yield name, Descriptor(schema=value, required=given)
        elif examples and not _is_type(value):
            yield name, Descriptor(example=value)
        else:
            yield name, Descriptor(schema=value)


def _is_schemas(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, dict) for each in value.values())


def _is_described(value: dict[str, Any]) -> bool:
    """Whether this is the description of a value and not the value."""
    keys = ("description", "enum", "default", "anyOf", "oneOf", "$ref", "const", "items")
    return _is_type(value.get("type")) or any(key in value for key in keys)


def _is_type(value: Any) -> bool:
    return any(
        isinstance(name, str) and (name.removesuffix(" parameter").lower() in _TYPES or "|" in name)
        for name in (value if isinstance(value, list) else [value])
    )


def _parameter(group: Group, name: str, declared: Descriptor) -> ParameterDescriptor:
    schema = declared.schema if isinstance(declared.schema, dict) else {}
    described = declared.schema if isinstance(declared.schema, str) else ""
    alternatives = [schema, *_dicts(schema.get("anyOf")), *_dicts(schema.get("oneOf"))]
    choices = next((each["enum"] for each in alternatives if _is_list(each.get("enum"))), None)
    if choices is None:
        choices = _quoted(schema.get("type"))
    example = declared.example
    if example is UNSET:
        given = schema.get("examples")
        example = schema.get("example", given[0] if isinstance(given, list) and given else UNSET)
    hints = [*choices[:1], *([] if example in (UNSET, None) else [example])]
    types = [found for each in [*alternatives, {"type": described}] if (found := _type(each))]
    return ParameterDescriptor(
        group=group,
        name=name,
        type=next(iter(types), _type_of(hints[0]) if hints else "string"),
        description=text(schema.get("description"))
        or ("" if _is_type(described) else described)
        or UNSET,
        example=_raw(example),
        enum_values=[raw for choice in choices if isinstance(raw := _raw(choice), Raw)] or UNSET,
        default=_raw(schema.get("default", UNSET)),
        required=True if group == "path" else declared.required,
    )


def _dicts(value: Any) -> Iterable[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _type(schema: dict[str, Any]) -> Type | None:
    """The first type that a schema names and that is one of ours."""
    given = schema.get("type")
    for name in given if isinstance(given, list) else [given]:
        if isinstance(name, str):
            word = name.strip().removesuffix(" parameter").lower()
            found = _TYPES.get(word) or ("string" if '"' in name else None)
            if found is not None:
                return found
    if "properties" in schema:
        return "object"
    return "array" if "items" in schema else None


def _quoted(given: Any) -> list[Any]:
    """The strings of a type that is written as in TypeScript: `"png" | "webp"`."""
    if not isinstance(given, str) or "|" not in given:
        return []
    return re.findall(r'"([^"|]*)"', given)


def _type_of(value: Any) -> Type:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (str, dict, list)):
        kinds: dict[type, Type] = {str: "string", dict: "object", list: "array"}
        return kinds[type(value)]
    return "string" if value is None else "number"


def _raw(value: Any) -> Raw | UnsetType:
    if value is UNSET or _is_deep(value, DEEPEST):
        return UNSET
    return Raw(_encoder.encode(value))


def _is_deep(value: Any, levels: int) -> bool:
    """Whether JSON is nested more than so many levels: it would keep all beside it from reading."""
    inner = value.values() if isinstance(value, dict) else value
    if not isinstance(inner, Iterable) or isinstance(inner, str):
        return False
    return not levels or any(_is_deep(each, levels - 1) for each in inner)
