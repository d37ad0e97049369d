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

from indexer.catalogue.overlays import MAX_FILE, apply_overlay, merge_patch, read_overlays
from indexer.catalogue.record import normalise
from indexer.errors import InvalidRecord, SourceError
from indexer.sources.records import SourceRecord
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


def blank(text: str) -> st.SearchStrategy[str]:
    """The text, with white space around it or not."""
    around = st.sampled_from(["", "", " ", "\n\t"])
    return st.builds(lambda before, after: before + text + after, around, around)


def spelt(text: str) -> st.SearchStrategy[str]:
    return st.booleans().map(lambda plain: json.dumps(text, ensure_ascii=not plain))


def members(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """The text of an object, in which a name may occur twice."""
    member = st.builds("{}:{}".format, NAMES.flatmap(spelt).flatmap(blank), values.flatmap(blank))
    return st.lists(member, max_size=4).map(lambda texts: "{" + ",".join(texts) + "}")


SCALARS = st.one_of(
    st.sampled_from(["null", "true", "false", *NUMBERS]), st.text(max_size=3).flatmap(spelt)
)
VALUES = st.recursive(
    SCALARS,
    lambda values: st.one_of(
        members(values),
        st.lists(values, max_size=3).map(lambda texts: "[ " + " , ".join(texts) + "]"),
    ),
    max_leaves=12,
)


def loaded(text: str) -> Any:
    """Decode JSON, with numbers as they are written."""
    return json.loads(text, parse_int=number, parse_float=number)


def number(written: str) -> tuple[str, str]:
    return ("number", written)


def merged(target: Any, patch: Any) -> Any:
    """The pseudocode of RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def written(folder: Path, *contents: str | bytes) -> list[str]:
    """Overlay files of these contents."""
    names = []
    for count, content in enumerate(contents):
        path = folder / f"overlay{count}.json"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        names.append(str(path))
    return names


def patched(
    folder: Path, record: Json, *contents: Json | list[Json], derived: bool = False
) -> Json | None:
    """A record with the overlays for it in files of these contents."""
    overlays = read_overlays(written(folder, *map(json.dumps, contents)))
    text = apply_overlay(
        json.dumps(record).encode(), overlays[record["id"]], summary_derived=derived
    )
    if text is None:
        return None
    result: Json = json.loads(text)
    return result


@pytest.mark.parametrize(("target", "patch", "result"), EXAMPLES)
def test_the_examples_of_the_rfc_are_merged(target: str, patch: str, result: str) -> None:
    assert merge_patch(target, patch) == result


@settings(deadline=None)  # a loaded machine is slow
@given(VALUES, VALUES | members(VALUES))
def test_merging_agrees_with_the_pseudocode_of_the_rfc(target: str, patch: str) -> None:
    result = loaded(merge_patch(target, patch))
    expected = merged(loaded(target), loaded(patch))
    assert result == expected
    if isinstance(expected, dict):
        assert list(result) == list(expected)


def test_members_that_no_patch_names_stay_byte_for_byte(tmp_path: Path) -> None:
    text = (
        b'{"id":"a","caf\\u00e9":"\\u00e9\\/\\ud83e\\udd8a",'
        b'"n":[1.50,1E400,-0, 12345678901234567890],'
        b'"q":{"x\\ty":1.0, "gone":2},"twice":1,"twice":2}'
    )
    overlay = read_overlays(written(tmp_path, '{"id":"a","q":{"gone":null,"n\\u0065w":1.10}}'))["a"]
    assert apply_overlay(text, overlay, summary_derived=False) == text.replace(
        b', "gone":2', b',"n\\u0065w":1.10'
    )


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
    overlays = read_overlays(written(tmp_path, compress(FORMS[form].encode())))
    texts = {key: [patch.text for patch in overlay.patches] for key, overlay in overlays.items()}
    removal = texts.pop("b")
    assert removal == [None]
    assert {key: [json.loads(text or "") for text in found] for key, found in texts.items()} == {
        "a": [{"name": "A"}],
        "c": [{"enriched": True}],
    }


@pytest.mark.parametrize(
    "content", ["[]", "{}", '[{}]\n{"a":{}}', json.dumps({"id": {"name": "the service called id"}})]
)
def test_empty_overlays_are_valid(content: str, tmp_path: Path) -> None:
    assert set(read_overlays(written(tmp_path, content))) <= {"a", "id"}


def test_each_patch_has_its_file_and_line(tmp_path: Path) -> None:
    first = '\n{"a": {},\n "b": null}\n\n[\n{"id": "c"}, {"a": {}}]'
    names = written(tmp_path, first, '{"a":null}')
    overlays = read_overlays(names)
    places = {key: [patch.place for patch in overlay.patches] for key, overlay in overlays.items()}
    assert places == {
        "a": [f"{names[0]}:2", f"{names[0]}:6", f"{names[1]}:1"],
        "b": [f"{names[0]}:3"],
        "c": [f"{names[0]}:6"],
    }
    assert overlays["a"].where == ", ".join(places["a"])


def test_overlays_apply_in_order(tmp_path: Path) -> None:
    record = service("a", quality={"score": 1}, tags=["old"], kept={"x": 1})
    overlays: list[Json] = [
        {"id": "a", "quality": None, "tags": ["new"], "name": "First"},
        {"a": {"quality": {"totalCalls": 2}, "kept": {"y": 2}, "tags": None}},
        {"id": "a", "name": "Last", "kept": {"x": None}},
    ]
    expected = service("a", quality={"totalCalls": 2}, kept={"y": 2}, name="Last")
    assert patched(tmp_path, record, *overlays) == expected
    assert patched(tmp_path, record, overlays) == expected


def test_the_same_id_twice_in_one_object_is_two_patches(tmp_path: Path) -> None:
    names = written(tmp_path, '{"a":{"x":null},"a":{"x":{"y":1}}}')
    text = apply_overlay(b'{"x":{"z":1}}', read_overlays(names)["a"], summary_derived=False)
    assert text == b'{"x":{"y":1}}'


def test_null_removes_a_service(tmp_path: Path) -> None:
    assert patched(tmp_path, service("a"), {"id": "a", "name": "A"}, {"a": None}) is None


def test_a_patch_after_a_removal_starts_from_nothing_but_the_id(tmp_path: Path) -> None:
    fresh = {"name": "Fresh", "description": "", "endpoints": []}
    result = patched(tmp_path, service("a", category="Search"), {"a": None}, {"a": fresh})
    assert result == {"id": "a"} | fresh


@pytest.mark.parametrize("named", [{}, {"id": "a"}])
def test_the_id_stays_the_first_member(named: Json, tmp_path: Path) -> None:
    result = patched(tmp_path, service("a"), {"a": {"zone": 1} | named})
    assert result is not None
    assert list(result) == [*service("a"), "zone"]


def test_a_derived_price_summary_is_derived_again_from_patched_prices(tmp_path: Path) -> None:
    bare = service("a", later=1)
    derived = json.loads(normalise(SourceRecord("line 1", json.dumps(bare).encode())).text)
    assert derived["priceSummary"]["maxAmount"] == "0.01"
    overlay: Json = {"id": "a", "endpoints": [endpoint("0.5")]}
    result = patched(tmp_path, derived, overlay, derived=True)
    again = json.loads(normalise(SourceRecord("line 1", json.dumps(result).encode())).text)
    assert again["priceSummary"]["maxAmount"] == "0.5"
    assert list(again) == list(derived)
    assert patched(tmp_path, derived, overlay) == derived | {"endpoints": [endpoint("0.5")]}


def test_a_patch_of_a_derived_summary_is_merged_into_it(tmp_path: Path) -> None:
    record = service("a", priceSummary={"minAmount": "1", "currency": "USDC"})
    overlay = {"a": {"priceSummary": {"minAmount": "2"}}}
    result = patched(tmp_path, record, overlay, derived=True)
    assert result == service("a", priceSummary={"minAmount": "2", "currency": "USDC"})


FAULTS: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", ": is empty; a list of nothing is written as []"),
    "blank": ("\ufeff \n", ": is empty"),
    "not JSON": ('{"id":"a"}\n{"id":"b",}\n', ":2: Expecting property name"),
    "no JSON number": ('\n{"id":"a","x":NaN}', ":2: NaN is no JSON value"),
    "cut short": ('{"a": {\n"name": "A"', ":2: Expecting ',' delimiter"),
    "cut short in a string": ('{"id":"a","name":"A', ":1: Unterminated string"),
    "commas between lines": ('{"id":"a"},\n{"id":"b"}', ":1: Expecting value at column 11"),
    "not UTF-8": (b'{"id":"a"}\n{"id":"\xff"}', ":2: is not UTF-8"),
    "half of a surrogate pair": ('{"id":"\\ud800"}', ":1: holds one half of a surrogate pair"),
    "nested without end": ('{"a":{"x":' + "[" * 9999 + "]" * 9999 + "}}", ":1: is nested too"),
    "a number": ("[1]", ":1: an overlay is a JSON object"),
    "an array in an array": ('[{"id":"a"},\n[{"id":"b"}]]', ":2: an overlay is a JSON object"),
    "a patch without an id": ('\n{"name":"A"}', ':2: "name" stands where the id of a service does'),
    "an id that is no string": ('{"id":7}', ':1: "id" stands where the id of a service does'),
    "an array for a patch": ('{"a":\n[]}', ':2: "a" stands where the id of a service does'),
    "another id": ('{"a":{"id":"b"}}', ':1: the overlay for "a" says that its id is "b"'),
    "an id removed": ('{"a":{"id":null}}', ':1: the overlay for "a" says that its id is null'),
    "two ids": ('{"id":"a","x":1,"id":"b"}', ':1: the overlay for "b" says that its id is "a"'),
    "gzip cut short": (gzip.compress(b'{"a":null}')[:-9], ": the gzip data is damaged"),
    "too long": (
        gzip.compress(b" " * (MAX_FILE + 1), 1),
        f": holds more than {MAX_FILE:,} bytes of overlays; split it",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_malformed_overlay_file_is_an_error_with_its_place(case: str, tmp_path: Path) -> None:
    content, message = FAULTS[case]
    names = written(tmp_path, content)
    with pytest.raises(SourceError, match=re.escape(names[0] + message)):
        read_overlays(names)


def test_a_missing_overlay_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"nowhere\.json: there is no such file"):
        read_overlays([str(tmp_path / "nowhere.json")])


def test_a_record_nested_too_deeply_to_be_patched_is_invalid(tmp_path: Path) -> None:
    overlay = read_overlays(written(tmp_path, '{"id":"a","x":1}'))["a"]
    text = b'{"x":%b}' % (b"[" * 9999 + b"]" * 9999)
    with pytest.raises(InvalidRecord, match="nested too deeply to be patched"):
        apply_overlay(text, overlay, summary_derived=False)
