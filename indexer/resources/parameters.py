"""Parameters of a resource: what it is called with, in any of the forms in use.

Version 2 of x402 declares examples in `extensions.bazaar.info.input`, and a JSON Schema beside
them; version 1 fields in `outputSchema.input`; others a schema beside the URL. A declaration that
cannot be understood is skipped, since a service is worth listing without it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from indexer.resources.facts import SHAPES, Places, fold
from indexer.untrusted import items, line, mapping, objects, text
from service.bodies import BYTES, FILE, FORM, JSON_TYPE, MULTIPART, TEXT
from service.schema.records import METHODS, ParameterDescriptor

ParameterGroup = Literal["body", "query", "path"]
Type = Literal["string", "number", "boolean", "array", "object"]

MAX_NAME = 256  # characters of the name of a tool
MAX_METHOD = 32
MAX_DEPTH = 32  # levels of nested JSON in an example, an enum value or a default
MAX_OUTPUT = 64  # names
BODY = "body"
"""The parameter that is the whole body, and also the name of its group."""

_GROUPS: dict[str, ParameterGroup] = {
    **dict.fromkeys(("queryparams", "query", "queryparameters", "querystring"), "query"),
    **dict.fromkeys(("bodyfields", "bodyparams", "body", "inputschema", "requestbody"), "body"),
    **dict.fromkeys(("pathparams", "path", "pathparameters"), "path"),
}
_SCHEMAS = frozenset(("inputschema", "requestschema", "parameters", "params"))
"""Members beside a URL that describe all parameters, of which none is known to be in the body."""
_INPUTS = frozenset(("input", "outputschema", *_SCHEMAS, *_GROUPS))
_BODY_TYPES = {
    **dict.fromkeys(("json", "applicationjson"), JSON_TYPE),
    **dict.fromkeys(("formdata", "multipartformdata", "multipart", "file", "files"), MULTIPART),
    **dict.fromkeys(("form", "urlencoded", "formurlencoded", "xwwwformurlencoded"), FORM),
    **dict.fromkeys(("text", "plaintext", "string", "plain"), TEXT),
    **dict.fromkeys(("raw", "bytes", "binary", "octetstream", "buffer", "blob"), BYTES),
    "xml": "application/xml",
    "html": "text/html",
    "csv": "text/csv",
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
_WITHOUT_BODY = frozenset(("", "GET", "HEAD", "DELETE"))
# Keys that only a schema has, and not an example.
_SCHEMA_KEYS = ("description", "enum", "default", "anyOf", "oneOf", "$ref", "const", "items")
# Keys of schemas and of envelopes, which name no field of an output.
_NO_FIELDS = """
type properties items description required example examples enum format default title schema content
output oneOf anyOf allOf prefixItems definitions additionalProperties nullable minimum maximum
minItems maxItems minLength maxLength pattern const input method bodyFields bodyType queryParams
pathParams headers headerFields discoverable fields
"""
_NOT_FIELDS = frozenset(_NO_FIELDS.split())

_encoder = msgspec.json.Encoder(decimal_format="number")
_method = re.compile(r"[A-Z][A-Z ,/|]{1,30}")
_words = re.compile(r"[A-Z]+")
_media_type = re.compile(r"[a-z]+/[a-z0-9.+*-]+")
_placeholder = re.compile(r"/(?::([A-Za-z_]\w*)|\{([^{}/]+)\}|\[([^\[\]/]+)\])(?=[/?]|$)")
_field = re.compile(r'"([^\W\d][\w .-]{0,39})":')


class DeclaredInput(Struct):
    """How a resource is called; texts are empty where nothing is declared.

    tool: the name of an MCP tool, whose description is `description`
    body_type: the media type of the body, where it is another one than JSON
    is_whole: whether the parameter BODY is the body itself, and no member of it
    """

    method: str = ""
    tool: str = ""
    description: str = ""
    parameters: list[ParameterDescriptor] = []
    body_type: str = ""
    is_whole: bool = False


class _Declaration(Struct):
    """One parameter as declared by a schema, an example or both."""

    schema: Any = None
    example: Any = UNSET
    required: bool | UnsetType = UNSET

    def complete(self, other: _Declaration) -> None:
        """Fill the fields that are not set from another declaration of the parameter."""
        self.schema = self.schema or other.schema
        self.example = other.example if self.example is UNSET else self.example
        self.required = other.required if self.required is UNSET else self.required


_Declarations = dict[tuple[ParameterGroup, str], _Declaration]


def read_input(holders: Iterable[Any], url: str) -> DeclaredInput:
    """Read the input that decoded values of any type declare, the most specific first.

    The first holder with parameters or a body counts for these, the first with a method for that.
    Placeholders in the path of the URL are parameters, too.
    """
    holders = [each for each in holders if each and isinstance(each, dict)]
    inputs = [found for each in holders for found in _inputs_of(each)]
    declared_inputs = [declared for declared, _, _ in inputs]
    facts = Places(*declared_inputs, *holders)
    method = facts.find("method", _read_method) or ""
    tools = map(_tool_of, declared_inputs)
    tool, description = next(filter(None, tools), ("", ""))
    declarations: _Declarations = {}
    for declared, schema, are_examples in inputs:
        _collect(declarations, schema, method, examples=False)
        _collect(declarations, declared, method, examples=are_examples)
        if declarations:
            break
    body_type = (
        facts.find("body type", read_body_type)
        or Places(*declared_inputs).find("media type", read_body_type)
        or ""
    )
    whole = declarations.pop(("body", ""), None)
    if whole is None and body_type in {TEXT, BYTES}:
        whole = _Declaration({"type": "string"})
    is_whole = whole is not None and not any(group == "body" for group, _ in declarations)
    if whole is not None and is_whole:
        declarations["body", BODY] = whole
    for name in path_parameters(url):
        declarations.setdefault(("path", name), _Declaration())
    parameters = [_describe(*key, each, body_type) for key, each in declarations.items()]
    return DeclaredInput(
        method="" if tool else method,
        tool=tool,
        description=description,
        parameters=parameters,
        body_type="" if body_type == JSON_TYPE or tool else body_type,
        is_whole=is_whole,
    )


def _inputs_of(holder: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any], bool]]:
    """Yield the inputs that an object declares.

    Each comes with the properties of its schema, and whether its own values are examples.
    """
    if "info" in holder or "schema" in holder:
        declared = mapping(mapping(holder, "info"), "input")
        properties = mapping(mapping(holder, "schema"), "properties")
        schema = mapping(mapping(properties, "input"), "properties")
        if declared or schema:
            yield declared, schema, True
    for name, folded in _inputs_among(tuple(holder)):
        value = holder[name]
        if not value or not isinstance(value, (dict, list)):
            continue
        if folded == "outputschema":
            value = mapping(value, "input")
        elif folded in _SCHEMAS:
            value = {"parameters": value}
        elif folded in _GROUPS:
            value = {} if _is_schema(value) else {name: value}
        if value and isinstance(value, dict):
            yield value, {}, False


@lru_cache(maxsize=SHAPES)
def _inputs_among(names: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the names of members that may declare an input, each with its folded name."""
    folded = ((name, fold(name)) for name in names)
    return [each for each in folded if each[1] in _INPUTS]


def _read_method(value: Any) -> str:
    """Return a text of methods of HTTP, as in `GET, POST`, or an empty string."""
    method = line(value, MAX_METHOD).upper()
    are_known = {*_words.findall(method)} <= {*METHODS, "OPTIONS"}
    return method if are_known and _method.fullmatch(method) else ""


def _tool_of(declared: dict[str, Any]) -> tuple[str, str] | None:
    """Return the name and the description of the MCP tool that is declared, None for no tool."""
    names = (text(declared.get(key), MAX_NAME) for key in ("toolName", "tool"))
    name = next(filter(None, names), "") if declared.get("type") == "mcp" else ""
    return (name, text(declared.get("description"))) if name else None


def read_body_type(value: Any) -> str:
    """Return the media type that a text names, in lower case, or an empty string."""
    given = line(value, MAX_NAME).partition(";")[0].strip().lower()
    return given if _media_type.fullmatch(given) else _BODY_TYPES.get(fold(given), "")


def path_parameters(url: str) -> list[str]:
    """Return the names of the placeholders in the path of a URL."""
    return ["".join(names) for names in _placeholder.findall(url)]


def lacks_example(url: str, parameters: Iterable[ParameterDescriptor]) -> bool:
    """Whether a placeholder in the path of a URL has no parameter with an example or a default."""
    with_values = {
        each.name
        for each in parameters
        if each.group == "path" and not (each.example is UNSET and each.default is UNSET)
    }
    return not with_values.issuperset(path_parameters(url))


def is_template(rest: str) -> bool:
    """Whether the path or the query of a URL has a placeholder."""
    return any(mark in rest for mark in ("{", "%7B")) or bool(path_parameters(rest))


def read_output(*declared: Any) -> str:
    """Return the distinct names of the fields of outputs, decoded JSON of any type, as one text."""
    names: dict[str, None] = {}
    for each in filter(None, declared):
        with_names = _encoder.encode(each).decode()
        names |= dict.fromkeys(
            name for name in _field.findall(with_names) if name not in _NOT_FIELDS
        )
    return " ".join([*names][:MAX_OUTPUT])


def _collect(
    declarations: _Declarations, fields: dict[str, Any], method: str, *, examples: bool
) -> None:
    """Add the parameters of all groups; with `examples` a plain value is an example."""
    default: ParameterGroup = "query" if method in _WITHOUT_BODY else "body"
    found: list[tuple[ParameterGroup, str, _Declaration]] = []
    for key, value in fields.items():
        group = _GROUPS.get(fold(key))
        if group is not None:
            read = _read_fields(value, examples=examples, is_body=key == BODY)
            found += ((group, *each) for each in read)
    if "properties" in fields and _is_schemas(fields["properties"]) and not examples:
        found += ((default, *each) for each in _read_fields(fields))
    if given := mapping(fields, "parameters"):
        if any(fold(key) in _GROUPS and not _is_schema(given[key]) for key in given):
            _collect(declarations, given, method, examples=False)
        else:
            found += ((default, *each) for each in _read_fields(given))
    for each in objects(fields, "parameters"):
        place = _GROUPS.get(fold(text(each.get("in"))), default)
        if each.get("in") not in ("header", "cookie"):
            found += ((place, *one) for one in _read_fields([mapping(each, "schema") | each]))
    if examples and fields.get("type") == "mcp":
        example = mapping(fields, "example")
        found += (("body", name, _Declaration(example=example[name])) for name in example)
    for group, name, declaration in found:
        declarations.setdefault((group, name), declaration).complete(declaration)


def _read_fields(
    fields: Any, *, examples: bool = False, is_body: bool = False
) -> Iterator[tuple[str, _Declaration]]:
    """Yield the parameters of one group: a list, a JSON Schema, or an object by name.

    A body that has no members of its own is one parameter without a name.
    """
    required: Collection[str] | None = None
    if isinstance(fields, list) and not (is_body and examples) and any(_names_of(fields)):
        fields = _names_of(fields)
    elif is_body and (whole := _read_whole(fields, examples=examples)):
        yield "", whole
        return
    elif not isinstance(fields, dict):
        return
    elif key := next((key for key in ("properties", "fields") if _is_schemas(fields.get(key))), ""):
        stated = fields.get("required")
        if isinstance(stated, list):
            required = frozenset(each for each in stated if isinstance(each, str))
        fields, examples = fields[key], False
    elif fields.get("type") == "object" and not examples:
        return
    for name, value in fields.items():
        if name:
            yield name, _read_field(name, value, required, examples=examples)


def _read_field(
    name: str, value: Any, required: Collection[str] | None, *, examples: bool
) -> _Declaration:
    if isinstance(value, dict) and _is_schema(value):
        own = value.get("required")
        if not isinstance(own, bool):
            own = UNSET if required is None else name in required
        return _Declaration(schema=value, required=own)
    is_example = examples and not names_type(value)
    return _Declaration(example=value) if is_example else _Declaration(schema=value)


def _read_whole(body: Any, *, examples: bool) -> _Declaration | None:
    """Return the declaration of a body that is no object, None for an object."""
    if isinstance(body, dict):
        is_schema = not examples and _type(body) in {"array", "string"}
        return _Declaration(body) if is_schema and "properties" not in body else None
    if not isinstance(body, (str, list)) or not body:
        return None
    is_type = not examples and names_type(body)
    return _Declaration({"type": body}) if is_type else _Declaration(example=body)


def _names_of(values: list[Any]) -> dict[str, Any]:
    """Return the objects of a list by their names."""
    return {text(each.get("name")): each for each in values if isinstance(each, dict)}


def _is_schemas(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, dict) for each in value.values())


def _is_schema(value: Any) -> bool:
    """Whether a value describes another one, rather than being an example of one."""
    if not isinstance(value, dict):
        return True
    return names_type(value.get("type")) or any(key in value for key in _SCHEMA_KEYS)


def names_type(value: Any) -> bool:
    """Whether a value is the name of a type, or a list that has one."""
    return any(
        isinstance(name, str) and (name.removesuffix(" parameter").lower() in _TYPES or "|" in name)
        for name in (value if isinstance(value, list) else [value])
    )


def _describe(
    group: ParameterGroup, name: str, declaration: _Declaration, body_type: str
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
    is_file = body_type == MULTIPART and group == BODY and _is_file(declaration.schema)
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
        example=_encode(FILE if is_file and example is UNSET else example),
        enum_values=[raw for choice in choices if isinstance(raw := _encode(choice), Raw)] or UNSET,
        default=_encode(schema.get("default", UNSET)),
        required=True if group == "path" else declaration.required,
    )


def _is_file(schema: Any) -> bool:
    stated = schema if isinstance(schema, dict) else {"type": schema}
    return stated.get("type") == "file" or stated.get("format") == "binary"


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
