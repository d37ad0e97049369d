"""Lists recognised by their content, and the memory that hostile ones take."""

from __future__ import annotations

import io
import tracemalloc
from collections import deque
from typing import cast

import pytest

from indexer.containers import container, elements
from indexer.containers.container import BeyondBounds, Container, NoList, open_container

LIMIT = 2**26


def reader(text: bytes) -> io.BufferedReader:
    return cast("io.BufferedReader", io.BufferedReader(io.BytesIO(text)))


def opened(text: bytes, max_bytes: int = LIMIT) -> Container:
    return open_container(reader(text), max_bytes)


def items_of(text: bytes) -> list[bytes]:
    return [item for _, item in opened(text).items]


@pytest.mark.parametrize("layout", ["%s", "\n%s\n"])
def test_the_first_known_key_is_the_list_of_an_envelope(layout: str) -> None:
    for text, key in [
        ('{"items": [1], "resources": [2], "services": [3]}', "services"),
        ('{"items": [1], "resources": [2]}', "resources"),
        ('{"other": [0], "items": [1]}', "items"),
    ]:
        container = opened((layout % text).encode())
        assert container.key == key
        assert next(container.items)[0] == f"{key}[0]"


def test_an_object_with_the_keys_of_a_record_is_one_record() -> None:
    text = b'{"resource": "x",\n"items": [1, 2]}'
    container = opened(text)
    assert ([*container.items], container.key) == ([("line 1", text)], "")


def test_blank_lines_are_counted_in_the_positions_of_items() -> None:
    items = opened(b'\n \n{"id": 1}\n\n{"id": 2}\n').items
    assert [position for position, _ in items] == ["line 3", "line 5"]


@pytest.mark.parametrize("text", [b'{\n"a": [1]}', b'{"items": 1}', b'{"items": "[]"}'])
def test_an_object_without_a_list_is_an_error(text: bytes) -> None:
    with pytest.raises(NoList, match="is not a list of services or resources"):
        opened(text)


def test_elements_that_are_no_objects_are_items() -> None:
    assert items_of(b'[1, "a,b", null, [2, 3], {}]') == [b"1", b'"a,b"', b"null", b"[2, 3]", b"{}"]


def test_a_text_beyond_the_limit_is_an_error() -> None:
    assert len([*opened(b"[%b]" % (b" " * 98), 100).items]) == 0
    with pytest.raises(BeyondBounds, match="more than 100 bytes; write it as JSON lines"):
        opened(b"[%b]" % (b" " * 99), 100)


SCALE = 256
HOSTILE = {
    "zeros": b"0,",
    "empty objects": b"{},",
    "empty strings": b'"",',
    "nested lists": b"[[0,0,0],[]],",
    "lone surrogates": rb'"\ud800",',
}


@pytest.mark.parametrize("form", ["[%b0]", '{"items":[%b0],"total":1}'])
@pytest.mark.parametrize("element", HOSTILE)
def test_a_hostile_page_takes_at_most_four_times_its_length(
    element: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 16 * 2**20 // SCALE  # and the buffers with it: tracing 16 MiB takes minutes
    monkeypatch.setattr(container, "CHUNK", container.CHUNK // SCALE)
    monkeypatch.setattr(elements, "WINDOW", elements.WINDOW // SCALE)
    text = form.encode() % (HOSTILE[element] * (size // len(HOSTILE[element])))
    file = reader(text)
    tracemalloc.start()
    try:
        deque(open_container(file, LIMIT).items, maxlen=0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * size


def test_an_envelope_of_many_keys_takes_no_memory_for_them() -> None:
    members = b"".join(b'"%x":0,' % number for number in range(100_000))
    file = reader(b'{%b"items":[]}' % members)
    tracemalloc.start()
    try:
        assert [*open_container(file, LIMIT).items] == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * len(members)
