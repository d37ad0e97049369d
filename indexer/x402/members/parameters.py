"""Parameters of a discovered resource, as declared in any of the forms in use.

Version 2 declares examples in `extensions.bazaar.info.input`, and a JSON Schema beside them.
Version 1 declares fields in `outputSchema.input`, in many forms. A declaration that cannot be
understood is skipped, since a service is worth listing without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from indexer.untrusted import items, mapping, objects, text
from indexer.x402.members.tools import MAX_TOOL
from service.schema.records import ParameterDescriptor

ParameterGroup = Literal["body", "query", "path"]
Type = Literal["string", "number", "boolean", "array", "object"]

MAX_METHOD = 32  # characters
MAX_DEPTH = 32  # levels of nested JSON in an example, an enum value or a default

_GROUPS: dict[str, ParameterGroup] = {
    "queryparams": "query",
    "query": "query",
    "bodyfields": "body",
    "bodyparams": "body",
    "body": "body",
    "inputschema": "body",
    "pathparams": "path",
}
_TYPE_NAMES: dict[Type, str] = {
    "string": "string str text file",
    "number": "number integer int float",
    "boolean": "boolean bool",
    "array": "array list",
    "object": "object dict",
}
_TYPES = {name: known for known, names in _TYPE_NAMES.items() for name in names.split()}
# By the types of decoded JSON; any other value is a number.
_VALUE_TYPES: dict[type, Type] = {
    str: "string",
    type(None): "string",
    bool: "boolean",
    list: "array",
    dict: "object",
}
_METHODS_WITHOUT_BODY = frozenset(("", "GET", "HEAD", "DELETE"))
# Keys that only a schema has, and not an example.
_SCHEMA_KEYS = ("description", "enum", "default", "anyOf", "oneOf", "$ref", "const", "items")

_encoder = msgspec.json.Encoder(decimal_format="number")
_method = re.compile(r"[A-Z][A-Z ,/|]{1,30}")
_placeholder = re.compile(r"/(?::([A-Za-z_]\w*)|\{([^{}/]+)\}|\[([^\[\]/]+)\])(?=[/?]|$)")


class DeclaredInput(Struct):
    """How a resource is called; strings are empty where nothing is declared.

    `tool` is the name of an MCP tool, and `description` that of the tool.
    """

    method: str = ""
    tool: str = ""
    description: str = ""
    parameters: list[ParameterDescriptor] = []


class ParameterDeclaration(Struct):
    """One parameter as declared by a schema, an example or both."""

    schema: Any = None
    example: Any = UNSET
    required: bool | UnsetType = UNSET

    def complete(self, other: ParameterDeclaration) -> None:
        """Fill the fields that are not set from another declaration of the parameter."""
        self.schema = self.schema or other.schema
        self.example = other.example if self.example is UNSET else self.example
        self.required = other.required if self.required is UNSET else self.required


Declarations = dict[tuple[ParameterGroup, str], ParameterDeclaration]


def read_input(extension: Any, output_schemas: Iterable[Any], url: str) -> DeclaredInput:
    """Read the input declared by the Bazaar extension.

    The first output schema of version 1 that has an input counts where the extension declares no
    parameters. All are decoded JSON of any type. Placeholders in the path of the URL are
    parameters, too.
    """
    declarations: Declarations = {}
    declared = mapping(mapping(extension, "info"), "input")
    if declared:
        schema = mapping(mapping(mapping(extension, "schema"), "properties"), "input")
        _collect(declarations, mapping(schema, "properties"), declared, examples=False)
        _collect(declarations, declared, declared, examples=True)
    if not declarations:
        inputs = (mapping(each, "input") for each in output_schemas)
        schema = next(filter(None, inputs), {})
        _collect(declarations, schema, schema, examples=False)
        declared = declared or schema
    for name in path_parameters(url):
        declarations.setdefault(("path", name), ParameterDeclaration())
    method = text(declared.get("method"), MAX_METHOD).strip().upper()
    names = (text(declared.get(key), MAX_TOOL) for key in ("toolName", "tool"))
    tool = next(filter(None, names), "") if declared.get("type") == "mcp" else ""
    return DeclaredInput(
        method=method if not tool and _method.fullmatch(method) else "",
        tool=tool,
        description=text(declared.get("description")) if tool else "",
        parameters=[_describe(*key, each) for key, each in declarations.items()],
    )


def path_parameters(url: str) -> list[str]:
    """Return the names of the placeholders in the path of a URL."""
    return ["".join(names) for names in _placeholder.findall(url)]


def names_type(value: Any) -> bool:
    """Whether a value is the name of a type, or a list that has one."""
    return any(
        isinstance(name, str) and (name.removesuffix(" parameter").lower() in _TYPES or "|" in name)
        for name in (value if isinstance(value, list) else [value])
    )


def is_template(rest: str) -> bool:
    """Whether the path or the query of a URL has a placeholder."""
    return any(mark in rest for mark in ("{", "%7B")) or bool(path_parameters(rest))


def _collect(declarations: Declarations, fields: Any, declared: Any, *, examples: bool) -> None:
    """Add the parameters of all groups; with `examples` a plain value is an example."""

    def add(group: ParameterGroup, name: str, declaration: ParameterDeclaration) -> None:
        declarations.setdefault((group, name), declaration).complete(declaration)

    for key, value in fields.items():
        group = _GROUPS.get(key.replace("_", "").lower())
        if group is not None:
            for name, declaration in _read_fields(value, examples=examples):
                add(group, name, declaration)
    if "properties" in fields and _is_schemas(fields["properties"]) and not examples:
        method = str(declared.get("method", "")).upper()
        for name, declaration in _read_fields(fields, examples=False):
            add("query" if method in _METHODS_WITHOUT_BODY else "body", name, declaration)
    if examples and declared.get("type") == "mcp":
        for name, value in mapping(declared, "example").items():
            add("body", name, ParameterDeclaration(example=value))


def _read_fields(fields: Any, *, examples: bool) -> Iterator[tuple[str, ParameterDeclaration]]:
    """Yield the parameters of one group: a list, a JSON Schema, or an object by name."""
    required: Any = ()
    if isinstance(fields, list):
        fields = {text(each.get("name")): each for each in fields if isinstance(each, dict)}
    elif not isinstance(fields, dict):
        return
    elif key := next((key for key in ("properties", "fields") if _is_schemas(fields.get(key))), ""):
        required, fields, examples = fields.get("required"), fields[key], False
    elif fields.get("type") == "object" and not examples:
        return
    for name, value in fields.items():
        if not name:
            continue
        if isinstance(value, dict) and _is_schema(value):
            own = value.get("required")
            if not isinstance(own, bool):
                own = name in required if isinstance(required, list) else UNSET
            yield name, ParameterDeclaration(schema=value, required=own)
        elif examples and not names_type(value):
            yield name, ParameterDeclaration(example=value)
        else:
            yield name, ParameterDeclaration(schema=value)


def _is_schemas(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, dict) for each in value.values())


def _is_schema(value: dict[str, Any]) -> bool:
    """Whether an object describes a value, rather than being an example of one."""
    return names_type(value.get("type")) or any(key in value for key in _SCHEMA_KEYS)


def _describe(
    group: ParameterGroup, name: str, declaration: ParameterDeclaration
) -> ParameterDescriptor:
    schema = declaration.schema if isinstance(declaration.schema, dict) else {}
    remark = declaration.schema if isinstance(declaration.schema, str) else ""
    alternatives = [schema, *objects(schema, "anyOf"), *objects(schema, "oneOf")]
    enums = (each["enum"] for each in alternatives if isinstance(each.get("enum"), list))
    choices = next(enums, None)
    if choices is None:
        choices = _quoted(schema.get("type"))
    example = declaration.example
    if example is UNSET:
        example = schema.get("example", next(iter(items(schema, "examples")), UNSET))
    types = (found for each in [*alternatives, {"type": remark}] if (found := _type(each)))
    values = [*choices[:1], *([] if example in (UNSET, None) else [example])]
    of_value: Type = _VALUE_TYPES.get(type(values[0]), "number") if values else "string"
    return ParameterDescriptor(
        group=group,
        name=name,
        type=next(types, of_value),
        description=text(schema.get("description"))
        or ("" if names_type(remark) else remark)
        or UNSET,
        example=_encode(example),
        enum_values=[raw for choice in choices if isinstance(raw := _encode(choice), Raw)] or UNSET,
        default=_encode(schema.get("default", UNSET)),
        required=True if group == "path" else declaration.required,
    )


def _type(schema: dict[str, Any]) -> Type | None:
    """Return the first known type that a schema names or implies."""
    given = schema.get("type")
    for name in given if isinstance(given, list) else [given]:
        if isinstance(name, str):
            known = _TYPES.get(name.strip().removesuffix(" parameter").lower())
            if known is not None or '"' in name:
                return known or "string"
    if "properties" in schema:
        return "object"
    return "array" if "items" in schema else None


def _quoted(given: Any) -> list[Any]:
    """Return the strings of a union type in TypeScript, such as `"png" | "webp"`."""
    return re.findall(r'"([^"|]*)"', given) if isinstance(given, str) and "|" in given else []


def _encode(value: Any) -> Raw | UnsetType:
    """Encode a value, unless it is nested so deeply that the whole record could not be decoded."""
    if value is UNSET or _exceeds_depth(value, MAX_DEPTH):
        return UNSET
    return Raw(_encoder.encode(value))


def _exceeds_depth(value: Any, levels: int) -> bool:
    if not isinstance(value, (dict, list)):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return not levels or any(_exceeds_depth(each, levels - 1) for each in inner)
