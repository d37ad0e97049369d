"""Overlays: reading their files, and merging their patches into records."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.catalogue.overlays import (
    MAX_FILE,
    Overlay,
    apply_overlay,
    merge_patch,
    read_overlays,
)
from indexer.catalogue.records import read_record
from indexer.errors import InvalidRecord, SourceError
from indexer.options import Denial
from tests.support.running import Json, endpoint, service

# The examples of appendix A of RFC 7396: target, patch, result.
EXAMPLES = [
    ('{"a":"b"}', '{"a":"c"}', '{"a":"c"}'),
    ('{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'),
    ('{"a":"b"}', '{"a":null}', "{}"),
    ('{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'),
    ('{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'),
    ('{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'),
    ('{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'),
    ('{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'),
    ('["a","b"]', '["c","d"]', '["c","d"]'),
    ('{"a":"b"}', '["c"]', '["c"]'),
    ('{"a":"foo"}', "null", "null"),
    ('{"a":"foo"}', '"bar"', '"bar"'),
    ('{"e":null}', '{"a":1}', '{"e":null,"a":1}'),
    ("[1,2]", '{"a":"b","c":null}', '{"a":"b"}'),
    ("{}", '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'),
]

NUMBERS = ["0", "-0", "1.50", "1E400", "1e-9", "12345678901234567890123", "0.1000000000000000055"]
NAMES = st.sampled_from(["a", "b", "c", "é", 'q"', ""])


def with_white_space(text: str) -> st.SearchStrategy[str]:
    """Draw the text with or without white space around it."""
    white_space = st.sampled_from(["", "", " ", "\n\t"])
    return st.builds(lambda before, after: before + text + after, white_space, white_space)


def encoded(text: str) -> st.SearchStrategy[str]:
    """Draw an encoding of a string, escaped or not."""
    return st.booleans().map(lambda plain: json.dumps(text, ensure_ascii=not plain))


def members(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Draw the text of an object, in which a name may be repeated."""
    member = st.builds(
        "{}:{}".format,
        NAMES.flatmap(encoded).flatmap(with_white_space),
        values.flatmap(with_white_space),
    )
    return st.lists(member, max_size=4).map(lambda texts: "{" + ",".join(texts) + "}")


SCALARS = st.one_of(
    st.sampled_from(["null", "true", "false", *NUMBERS]), st.text(max_size=3).flatmap(encoded)
)
VALUES = st.recursive(
    SCALARS,
    lambda values: st.one_of(
        members(values),
        st.lists(values, max_size=3).map(lambda texts: "[ " + " , ".join(texts) + "]"),
    ),
    max_leaves=12,
)


def decode(text: str) -> Any:
    """Decode JSON with numbers as text."""
    return json.loads(text, parse_int=number, parse_float=number)


def number(text: str) -> tuple[str, str]:
    return ("number", text)


def merge(target: Any, patch: Any) -> Any:
    """Merge by the pseudocode of RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value)
    return result


def write_overlays(folder: Path, *contents: str | bytes) -> list[str]:
    """Write overlay files of these contents."""
    names = []
    for count, content in enumerate(contents):
        path = folder / f"overlay{count}.json"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        names.append(str(path))
    return names


def overlay_of(paths: list[str], service_id: str, domain: str = "") -> Overlay:
    """Read the overlay of one service."""
    overlay = read_overlays(paths).take(service_id, domain)
    assert overlay is not None
    return overlay


def apply(folder: Path, record: Json, *contents: Json | list[Json], derived: bool = False) -> Json:
    """Apply to a record its overlays in files of these contents."""
    paths = write_overlays(folder, *map(json.dumps, contents))
    overlay = overlay_of(paths, record["id"], record.get("domain", ""))
    text = apply_overlay(json.dumps(record).encode(), overlay, summary_derived=derived)
    result: Json = json.loads(text)
    return result


def removals(*contents: Json, folder: Path) -> list[Json]:
    """Return the removals of files of these contents, without their reasons."""
    overlays = read_overlays(write_overlays(folder, *map(json.dumps, contents)))
    fields = ("host", "domain", "payee", "id", "url")
    return [
        {field: value for field in fields if (value := getattr(denial, field))}
        for denial in overlays.denials
    ]


@pytest.mark.parametrize(("target", "patch", "result"), EXAMPLES)
def test_the_examples_of_rfc_7396_are_merged(target: str, patch: str, result: str) -> None:
    assert merge_patch(target.encode(), patch.encode()).decode() == result


@settings(deadline=None)  # slow on a loaded machine
@given(VALUES, VALUES | members(VALUES))
def test_merging_agrees_with_the_pseudocode_of_rfc_7396(target: str, patch: str) -> None:
    result = decode(merge_patch(target.strip().encode(), patch.strip().encode()).decode())
    expected = merge(decode(target), decode(patch))
    assert result == expected
    if isinstance(expected, dict):
        assert list(result) == list(expected)


def test_values_that_no_patch_names_are_unchanged_byte_for_byte(tmp_path: Path) -> None:
    text = (
        b'{"id":"a","\xc3\xa9":"\\u00e9\\/\\ud83e\\udd8a",'
        b'"n":[1.50,1E400,-0, 12345678901234567890],'
        b'"q":{"x":1.0,"gone":2}}'
    )
    patch = '{"id":"a","q":{"gone":null,"n\\u0065w":1.10, "long":%s}}' % ("9" * 5000)
    overlay = overlay_of(write_overlays(tmp_path, patch), "a")
    assert apply_overlay(text, overlay, summary_derived=False) == text.replace(
        b',"gone":2', b',"new":1.10,"long":' + b"9" * 5000
    )


def test_the_last_of_several_members_with_one_name_counts() -> None:
    assert merge_patch(b'{"a":1,"b":2,"a":3}', b'{"c":4,"c":5}') == b'{"a":3,"b":2,"c":5}'


PATCHES: dict[str, Json | None] = {
    "a": {"name": "A"},
    "b": None,
    "c": {"id": "c", "enriched": True},
}
FORMS = {
    "lines": '{"id":"a","name":"A"}\n\n{"b":null}\r\n{"enriched":true,"id":"c"}\n',
    "lines of both kinds": '{"id":"a","name":"A"}\n{"b":null,"c":{"enriched":true}}',
    "lines after a byte order mark": '\ufeff{"a":{"name":"A"}}\n{"b":null}\n'
    '{"id":"c","enriched":true}',
    "an array": '[{"id":"a","name":"A"},{"b":null},{"id":"c","enriched":true}]',
    "an array over several lines": json.dumps(
        [{"id": "a", "name": "A"}, {"b": None}, {"id": "c", "enriched": True}], indent=2
    ),
    "an object": json.dumps(PATCHES),
    "an object over several lines": json.dumps(PATCHES, indent=2),
    "objects over several lines": '{\n"id": "a",\n"name": "A"\n}\n'
    '{\n"b": null,\n"c": {"enriched": true}\n}',
}


@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("form", FORMS)
def test_every_format_holds_the_same_overlays(form: str, compress: Any, tmp_path: Path) -> None:
    paths = write_overlays(tmp_path, compress(FORMS[form].encode()))
    texts = {
        key: [json.loads(patch.text) for patch in overlay_of(paths, key).patches] for key in "ac"
    }
    assert texts == {"a": [{"name": "A"}], "c": [{"enriched": True}]}
    (removal,) = read_overlays(paths).denials
    assert removal.id == "b"


@pytest.mark.parametrize(
    "content", ["[]", "{}", '[{}]\n{"a":{}}', json.dumps({"id": {"name": "the service called id"}})]
)
def test_empty_overlays_are_valid(content: str, tmp_path: Path) -> None:
    assert read_overlays(write_overlays(tmp_path, content)).denials == ()


def test_each_patch_has_its_file_and_key_and_no_blank_line_changes_it(tmp_path: Path) -> None:
    for blanks in ("", "\n", " \n\n"):
        first = blanks + '{"a": {\n},\n "b": null}\n\n[\n{"id": "c"}, {"a": {}}]' + blanks
        names = write_overlays(tmp_path, first, '{"a":{}}')
        assert overlay_of(names, "a").where == f"{names[0]}: a, {names[1]}: a"
        assert overlay_of(names, "c").where == f"{names[0]}: c"
        (removal,) = read_overlays(names).denials
        assert removal == Denial(id="b", reason=f"is taken down by {names[0]}: b")


def test_overlays_apply_in_order(tmp_path: Path) -> None:
    record = service("a", quality={"score": 1}, tags=["old"], nested={"x": 1})
    overlays: list[Json] = [
        {"id": "a", "quality": None, "tags": ["new"], "name": "First"},
        {"a": {"quality": {"totalCalls": 2}, "nested": {"y": 2}, "tags": None}},
        {"id": "a", "name": "Last", "nested": {"x": None}},
    ]
    expected = service("a", quality={"totalCalls": 2}, nested={"y": 2}, name="Last")
    assert apply(tmp_path, record, *overlays) == expected
    assert apply(tmp_path, record, overlays) == expected


KEYS: dict[str, Json] = {
    "a": {"id": "a"},
    "domain:API.Bücher.Example:8443": {"domain": "api.xn--bcher-kva.example:8443"},
    "payee:0xAB": {"payee": "0xab"},
    "payee:So11": {"payee": "So11"},
    "HTTPS://Api.Example:443/%7Ea/./b?q=1": {"url": "https://api.example/~a/b?q=1"},
}


@pytest.mark.parametrize("key", KEYS)
def test_null_takes_down_a_service_a_domain_a_payee_or_an_endpoint(
    key: str, tmp_path: Path
) -> None:
    assert removals({key: None}, folder=tmp_path) == [KEYS[key]]


@pytest.mark.parametrize("key", ["payee:0xab", "https://api.example/a"])
def test_a_payee_and_an_endpoint_cannot_be_patched(key: str, tmp_path: Path) -> None:
    names = write_overlays(tmp_path, json.dumps({key: {"name": "A"}}))
    reason = f"{names[0]}: {key}: {'can be' if key.startswith('payee') else 'a URL takes'} "
    with pytest.raises(SourceError, match=re.escape(reason)):
        read_overlays(names)


def test_patches_of_a_domain_apply_to_all_its_services_before_those_of_their_ids(
    tmp_path: Path,
) -> None:
    contents: list[Json] = [
        {"b": {"name": "Own"}},
        {"domain:api.example": {"name": "Shared", "tags": ["x"]}},
    ]
    first = apply(tmp_path, service("a", domain="api.example."), *contents)
    second = apply(tmp_path, service("b", domain="API.example"), *contents)
    third = apply(tmp_path, service("c", domain="https://API.example/"), *contents)
    assert (first["name"], first["tags"]) == ("Shared", ["x"])
    assert third["tags"] == ["x"]
    assert (second["name"], second["tags"]) == ("Own", ["x"])


@pytest.mark.parametrize("key", ["a", "domain:api.example"])
def test_a_patch_does_not_bring_back_a_removed_service_and_is_unused(
    key: str, tmp_path: Path
) -> None:
    names = write_overlays(tmp_path, json.dumps({key: None}), json.dumps({key: {"name": "A"}}))
    overlays = read_overlays(names)
    assert len(overlays.denials) == 1
    assert overlays.take("a", "api.example") is None
    assert overlays.unused(overlays.denials) == [f"{names[1]}: {key}"]


def test_overlays_that_apply_to_nothing_are_unused(tmp_path: Path) -> None:
    (name,) = write_overlays(tmp_path, '{"a":{},"b":{},\n"domain:c.example":{},"payee:0xd":null}')
    overlays = read_overlays([name])
    overlays.take("a", "")
    assert overlays.unused(()) == [
        f"{name}: b",
        f"{name}: domain:c.example",
        f"{name}: payee:0xd",
    ]


@pytest.mark.parametrize("named", [{}, {"id": "a"}])
def test_the_id_stays_the_first_member(named: Json, tmp_path: Path) -> None:
    result = apply(tmp_path, service("a"), {"a": {"zone": 1} | named})
    assert list(result) == [*service("a"), "zone"]


def test_a_derived_price_summary_is_derived_again_from_patched_prices(tmp_path: Path) -> None:
    bare = service("a", later=1)
    derived = json.loads(read_record(json.dumps(bare).encode()).text)
    assert derived["priceSummary"]["maxAmount"] == "0.01"
    overlay: Json = {"id": "a", "endpoints": [endpoint("0.5")]}
    result = apply(tmp_path, derived, overlay, derived=True)
    again = json.loads(read_record(json.dumps(result).encode()).text)
    assert again["priceSummary"]["maxAmount"] == "0.5"
    assert list(again) == list(derived)
    assert apply(tmp_path, derived, overlay) == derived | {"endpoints": [endpoint("0.5")]}


def test_a_patch_of_a_derived_summary_is_merged_into_it(tmp_path: Path) -> None:
    record = service("a", priceSummary={"minAmount": "1", "currency": "USDC"})
    overlay = {"a": {"priceSummary": {"minAmount": "2"}}}
    result = apply(tmp_path, record, overlay, derived=True)
    assert result == service("a", priceSummary={"minAmount": "2", "currency": "USDC"})


FAULTS: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", ": is empty; a list of nothing is written as []"),
    "blank": ("\ufeff \n", ": is empty"),
    "not JSON": ('{"id":"a"}\n{"id":"b",}\n', ":2: Expecting property name"),
    "no JSON number": ('\n{"id":"a","x":NaN}', ":2: JSON is malformed"),
    "cut short": ('{"a": {\n"name": "A"', ":2: Expecting ',' delimiter"),
    "cut short in a string": ('{"id":"a","name":"A', ":1: Unterminated string"),
    "commas between lines": ('{"id":"a"},\n{"id":"b"}', ":1: Expecting value at column 11"),
    "a key twice": ('{"a":null,"b":{},"a":{"name":"A"}}', ':1: has "a" twice in one object'),
    "not UTF-8": (b'{"id":"a"}\n{"id":"\xff"}', ":2: is not UTF-8"),
    "half of a surrogate pair": ('{"id":"\\ud800"}', ":1: holds one half of a surrogate pair"),
    "nested without end": ('{"a":{"x":' + "[" * 9999 + "]" * 9999 + "}}", ":1: is nested too"),
    "a number": ("[1]", ":1: $[0]: Expected `object`, got `int`"),
    "an array in an array": ('[{"id":"a"},\n[{"id":"b"}]]', ":1: $[1]: Expected `object`"),
    "a patch without an id": ('\n{"name":"A"}', ": name: stands where the id of a service does"),
    "an id that is no string": ('{"id":7}', ": id: stands where the id of a service does"),
    "another id": ('{"a":{"id":"b"}}', ': a: its id is "b", and cannot be patched'),
    "an id removed": ('{"a":{"id":null}}', ": a: its id is null, and cannot be patched"),
    "an id of many digits": ('{"a":{"id":%s}}' % ("9" * 5000), ": a: its id is 999"),
    "a domain without an ASCII form": ('{"domain:\u2024":null}', ": domain:\u2024: "),
    "an invalid URL": ('\n{"https://":null}', ": https://: is not a URL with a host"),
    "a profile of a tool": (
        '{"mcp://tool/x":{"profile":{"whenToUse":"x"}}}',
        ": mcp://tool/x: a URL takes a profile alone",
    ),
    "an invalid profile": (
        '{"a":{"profile":{"whenToUse":7}}}',
        ": a: $.profile.whenToUse: Expected",
    ),
    "a domain with a scheme": (
        '{"domain:https://a.example":null}',
        ": domain:https://a.example: holds a blank or a character that no domain has",
    ),
    "UTF-16": ('{"a":null}'.encode("utf-16"), ":1: is UTF-16; save it as UTF-8"),
    "gzip cut short": (gzip.compress(b'{"a":null}')[:-9], ": the compressed data is damaged"),
    "too long": (
        gzip.compress(b" " * (MAX_FILE + 1), 1),
        f": holds more than {MAX_FILE:,} bytes of overlays; split it",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_malformed_overlay_file_is_an_error_with_its_position(case: str, tmp_path: Path) -> None:
    content, message = FAULTS[case]
    names = write_overlays(tmp_path, content)
    with pytest.raises(SourceError, match=re.escape(names[0] + message)):
        read_overlays(names)


def test_a_missing_overlay_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"nowhere\.json: there is no such file"):
        read_overlays([str(tmp_path / "nowhere.json")])


def test_a_record_nested_too_deeply_to_be_patched_is_invalid(tmp_path: Path) -> None:
    overlay = overlay_of(write_overlays(tmp_path, '{"id":"a","x":1}'), "a")
    text = b'{"x":%b}' % (b"[" * 9999 + b"]" * 9999)
    with pytest.raises(InvalidRecord, match="nested too deeply to be patched"):
        apply_overlay(text, overlay, summary_derived=False)
