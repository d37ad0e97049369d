"""Forms of texts, and their items; the memory that hostile texts take."""

from __future__ import annotations

import io
import json
import tracemalloc
from collections import deque
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.intake import forms, lists
from indexer.intake.forms import NoList, pairs, scan, split
from indexer.intake.lists import BeyondBounds, DamagedText, ItemList, open_list
from indexer.options import Kind
from tests.support.running import Json, service
from tests.support.sources.manifests import HOST, MANIFESTS, described, items, objects, urls
from tests.support.sources.mpp import EMPTY, MAPS, TALK, directory
from tests.support.sources.openapi import DOCUMENTS, X402SCAN
from tests.support.sources.x402 import resource, v2

LIMIT = 2**26
ENDPOINTS = {"x402Version": 2, "endpoints": [{"path": "/scan", "accepts": []}]}


def reader(text: bytes) -> io.BufferedReader:
    return cast("io.BufferedReader", io.BufferedReader(io.BytesIO(text)))


def opened(text: bytes, max_bytes: int = LIMIT, kind: Kind | None = None) -> ItemList:
    return open_list(reader(text), max_bytes, kind)


def items_of(text: bytes) -> list[bytes]:
    return [item for _, item in opened(text).items]


Outcome = tuple[Kind | None, str, list[Any]]


def outcome(value: Any, kind: Kind | None = None, indent: int | None = None) -> Outcome | str:
    """Return the kind, the key and the items of a text, or the fault of it."""
    try:
        found = opened(json.dumps(value, indent=indent).encode(), kind=kind)
        return found.kind, found.key, [json.loads(text) for _, text in found.items]
    except NoList as error:
        return str(error)


TEXTS: dict[str, Any] = {
    **{f"openapi {name}": each for name, each in DOCUMENTS.items()},
    **{f"manifest {name}": each for name, each in MANIFESTS.items()},
    "manifest of paths": ENDPOINTS,
    "directory": directory(MAPS),
    "feed": {"resources": [resource(), resource()]},
    "page": {"items": [resource()], "pagination": {"total": 1}},
    "catalogue": {"services": [service(), service()]},
    "record": service(),
    "resource": resource(),
    "nothing": {"services": []},
    "message": {"data": [service()]},
}
NAMES = st.sampled_from(["name", "description", "version", "title", "provider", "kind", "z", "é"])
VALUES = st.none() | st.text(max_size=3) | st.integers() | st.lists(st.text(max_size=2), max_size=2)


@given(
    name=st.sampled_from(sorted(TEXTS)),
    more=st.dictionaries(NAMES, VALUES, max_size=3),
    indent=st.sampled_from([None, 0, 3]),
    is_first=st.booleans(),
)
def test_neither_other_members_nor_white_space_change_what_a_text_is(
    name: str, more: Json, indent: int | None, *, is_first: bool
) -> None:
    value = TEXTS[name]
    more = {key: each for key, each in more.items() if key not in value}
    if name == "message":
        more.pop("name", None)
    expected = outcome(value)
    mutated = more | value if is_first else value | more
    given_ = outcome(mutated, indent=indent)
    if isinstance(expected, tuple) and not expected[1]:  # the text is the item
        expected = (*expected[:2], [mutated])
    assert given_ == expected


@pytest.mark.parametrize("key", ["accepts", "resource", "endpoints", "name", "openapi"])
@pytest.mark.parametrize("value", ["x", [], {}, 7, None])
@pytest.mark.parametrize("name", ["feed", "page", "catalogue", "directory", "manifest urls"])
def test_members_of_records_do_not_hide_a_list(name: str, key: str, value: Any) -> None:
    found = outcome({key: value} | TEXTS[name])
    expected = outcome(TEXTS[name])
    assert found[:2] == expected[:2]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_text_without_a_list_has_one_error(indent: int | None) -> None:
    assert str(outcome({"data": [service()]}, indent=indent)).startswith(
        "is not a list of services or resources: it has no list under `services`"
    )


DECLARED: list[tuple[Kind, Any]] = [
    *[(Kind.MANIFEST, {"name": "x"} | each) for each in MANIFESTS.values()],
    (Kind.MANIFEST, {"name": "x", "resources": [resource()]}),
    (Kind.MANIFEST, items(described(), total=1)),
    (Kind.MANIFEST, urls()),
    (Kind.MANIFEST, ENDPOINTS),
    *[(Kind.MPP, directory(*each)) for each in ([], [{"id": "x", "name": "x"}], [service()])],
]


@pytest.mark.parametrize(("kind", "value"), DECLARED)
def test_a_declared_kind_is_believed(kind: Kind, value: Any) -> None:
    assert outcome(value, kind) == (kind, "", [value])


def test_a_list_of_records_is_one_where_it_is_declared() -> None:
    found = outcome({"resources": [{"url": HOST}]}, Kind.RECORDS)
    assert found == (None, "resources", [{"url": HOST}])


UNREAD: list[tuple[Json, str]] = [
    ({"swagger": "2.0", "paths": {}}, "a Swagger 2.0 document, which is not read; convert it"),
    ({"asyncapi": "3.0.0", "channels": {}}, "an AsyncAPI document, which is not read"),
    ({"openrpc": "1.2.6", "methods": []}, "an OpenRPC document, which is not read"),
    ({"linkset": []}, "a linkset, which is not read; name the documents that it links to"),
    ({"openapi": "3.1.0", "webhooks": {}}, "an OpenAPI document without `paths`"),
    ({"name": "A", "url": HOST, "skills": [], "version": "1"}, "an agent card, which is not read"),
    (
        {"servers": [{"name": "a"}], "metadata": {"nextCursor": "x"}},
        "a page of an MCP registry, which is not read",
    ),
]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize(("members", "name"), UNREAD)
def test_a_document_that_is_not_read_is_named(members: Json, name: str, indent: int | None) -> None:
    assert str(outcome(members, indent=indent)).startswith(f"is {name}")


STARTS = {
    b"openapi: 3.1.0\ninfo:\n  title: x\n": "is YAML and not JSON; convert it",
    b"# a comment\n---\nopenapi: 3\n": "is YAML and not JSON; convert it",
    b"tx_hash,block_timestamp,sender\n0x1,2026,0x2\n": "is CSV and not JSON; if it has payments",
    b'"DateTime (UTC)","From","To"\n1,2,3\n': "is CSV and not JSON; if it has payments",
    b"PAR1\x00\x01": "is a Parquet file and not JSON; if it has payments, add",
    b"PK\x03\x04x": "is a zip file and not JSON; unpack it",
    b"BZh91AY": "is compressed by bzip2 or xz and not JSON; give gzip or zstd",
    b"\xef\xbb\xbf\n <!doctype html>": "is a web page and not JSON",
}


@pytest.mark.parametrize("text", STARTS)
def test_a_text_that_is_no_json_is_named(text: bytes) -> None:
    with pytest.raises(NoList) as raised:
        opened(text)
    assert str(raised.value).startswith(STARTS[text])


def test_records_and_lists_with_members_of_documents_stay_what_they_are() -> None:
    record = service() | {"openapi": "3.1.0", "paths": {}, "skills": [], "items": [{"a": 1}]}
    assert outcome(record) == (None, "", [record])
    assert outcome([X402SCAN]) == (None, "", [X402SCAN])


@pytest.mark.parametrize(
    "envelope",
    [
        {"x402Version": 2, "items": [resource()], "pagination": {"limit": 1, "total": 1}},
        {"x402Version": 2, "items": [resource()], "lastUpdated": 1781555511},
        items(described(), pagination={"limit": 20, "offset": 0, "total": 1}),
        items(described(), total=1),
        {"x402Version": 2, "items": [described()]},
        {"x402Version": 1, "resources": [v2({})]},
        {"x402Version": 1, "resources": [v2({}) | {"url": HOST}]},
        {"resources": [service() | {"url": HOST}]},
        urls(),
        items(),
        urls(7, HOST),
        items([described()]),
    ],
)
def test_an_envelope_of_a_feed_stays_a_list(envelope: Json) -> None:
    kind, key, _ = cast("Outcome", outcome(envelope))
    assert (kind, key in {"resources", "items"}) == (None, True)


def test_a_manifest_may_have_objects_and_a_known_price() -> None:
    assert outcome(objects({"url": HOST}))[0] is Kind.MANIFEST


@pytest.mark.parametrize("services", [[MAPS], [TALK], [EMPTY], [5, {"name": "x"}, TALK]])
def test_a_directory_is_told_by_its_items(services: list[Any]) -> None:
    assert outcome(directory(*services)) == (Kind.MPP, "", [directory(*services)])


@pytest.mark.parametrize(
    "item",
    [
        service(),
        service(serviceUrl="https://one.example", path="/a"),
        service(endpoints=[{"url": "https://one.example/a", "path": "/a", "payment": {}}]),
        {"id": "x", "name": "x"},
        {"endpoints": 5},
        {"endpoints": [5, [], {"method": "GET"}]},
    ],
)
def test_an_envelope_of_records_is_a_list(item: Json) -> None:
    assert outcome({"version": 1, "services": [item]})[:2] == (None, "services")


def test_the_first_item_that_tells_decides() -> None:
    assert outcome(directory(service(), MAPS))[0] is None
    assert outcome(directory({"name": "x"}, MAPS, service()))[0] is Kind.MPP


@pytest.mark.parametrize("layout", ["%s", "\n%s\n"])
def test_the_first_list_with_objects_is_that_of_an_envelope(layout: str) -> None:
    for text, key in [
        ('{"items": [{}], "resources": [{}], "services": [{}]}', "services"),
        ('{"items": [{}], "resources": []}', "items"),
        ('{"other": [0], "items": [1]}', "items"),
    ]:
        found = opened((layout % text).encode())
        assert found.key == key
        assert next(found.items)[0] == f"{key}[0]"


def test_blank_lines_are_counted_in_the_positions_of_items() -> None:
    lines = opened(b'\n \n{"id": 1}\n\n{"id": 2}\n').items
    assert [position for position, _ in lines] == ["line 3", "line 5"]


@pytest.mark.parametrize("text", [b'{\n"a": [1]}', b'{"items": 1}', b'{"items": "[]"}'])
def test_an_object_without_a_list_is_an_error(text: bytes) -> None:
    with pytest.raises(NoList, match="is not a list of services or resources"):
        opened(text)


@pytest.mark.parametrize("text", [b'{"items": [\n', b'{"a": nope}', b'{"a":\n nope}'])
def test_one_malformed_text_is_damaged_however_it_is_laid_out(text: bytes) -> None:
    with pytest.raises(DamagedText):
        opened(text)


def test_a_fault_behind_half_a_surrogate_pair_has_its_line() -> None:
    with pytest.raises(DamagedText) as caught:
        opened(b'["\\ud800",\n1,\noops\n]')
    assert caught.value.line == 3


def test_elements_that_are_no_objects_are_items() -> None:
    assert items_of(b'[1, "a,b", null, [2, 3], {}]') == [b"1", b'"a,b"', b"null", b"[2, 3]", b"{}"]


def test_a_text_beyond_the_limit_is_an_error() -> None:
    assert len([*opened(b"[%b]" % (b" " * 98), 100).items]) == 0
    with pytest.raises(BeyondBounds, match="more than 100 bytes; write it as JSON lines"):
        opened(b"[%b]" % (b" " * 99), 100)


KEYS = st.sampled_from(["a", "resource", ",", "}{", '"', "\\", '":', "é", "\ud800"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('ab,:[]{}"\\ é\n') | KEYS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
)


@given(values=st.lists(JSON, max_size=30), indent=st.sampled_from([None, 0, 2]))
def test_every_element_is_split_off_as_it_is_written(values: list[Any], indent: int | None) -> None:
    text = json.dumps(values, indent=indent).encode()
    texts = [*split(text)]
    assert [json.loads(each) for each in texts] == values
    assert [*scan(text)] == texts
    assert all(each in text for each in texts)


@given(
    value=st.dictionaries(st.text('ab,:[]{}\\" é'), JSON, max_size=9), indent=st.none() | st.just(2)
)
def test_every_member_is_found_as_it_is_written(value: Json, indent: int | None) -> None:
    text = json.dumps(value, indent=indent).encode()
    assert {key: json.loads(each) for key, each in pairs(text)} == value


SCALE = 256
HOSTILE = {
    "zeros": b"0,",
    "empty objects": b"{},",
    "empty strings": b'"",',
    "nested lists": b"[[0,0,0],[]],",
    "lone surrogates": rb'"\ud800",',
}


@pytest.mark.parametrize("form", ["[%b0]", '{"items":[%b0],"total":1}', '{"a":[%b0],"items":[]}'])
@pytest.mark.parametrize("element", HOSTILE)
def test_a_hostile_page_takes_at_most_four_times_its_length(
    element: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 16 * 2**20 // SCALE  # and the bounds with it: tracing 16 MiB takes minutes
    monkeypatch.setattr(lists, "CHUNK", lists.CHUNK // SCALE)
    monkeypatch.setattr(forms, "MAX_COMMAS", forms.MAX_COMMAS // 1024 // SCALE)
    text = form.encode() % (HOSTILE[element] * (size // len(HOSTILE[element])))
    file = reader(text)
    tracemalloc.start()
    try:
        deque(open_list(file, LIMIT).items, maxlen=0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * size


def test_an_envelope_of_many_keys_takes_no_memory_for_them() -> None:
    members = b"".join(b'"%x":0,' % number for number in range(100_000))
    file = reader(b'{%b"items":[]}' % members)
    tracemalloc.start()
    try:
        assert [*open_list(file, LIMIT).items] == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * len(members)
