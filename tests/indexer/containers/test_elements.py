"""Elements of lists, split a window at a time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.containers import elements
from indexer.containers.elements import split

KEYS = st.sampled_from(["a", "resource", ",", "}{", '"', "\\", '":', "é"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('ab,:[]{}"\\ é\n') | KEYS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
)


@given(
    items=st.lists(VALUES, max_size=30),
    indent=st.sampled_from([None, 0, 2]),
    window=st.integers(1, 60),
    tail=st.integers(1, 60),
)
def test_every_element_is_split_off_whatever_it_holds(
    items: list[Any], indent: int | None, window: int, tail: int
) -> None:
    text = json.dumps(items, indent=indent, ensure_ascii=False).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elements, "WINDOW", window)
        patch.setattr(elements, "TAIL", tail)
        texts = [bytes(element) for element in split(text, 1, len(text) - 1)]
    assert [json.loads(text) for text in texts] == items
    assert all(
        text in json.dumps(items, indent=indent, ensure_ascii=False).encode() for text in texts
    )


def test_a_list_of_windows_keeps_the_text_of_its_elements() -> None:
    items = [
        b'{"resource": "https://a.example/%d", "n":1.50, "t":"\\u00e9"}' % n for n in range(30000)
    ]
    text = b"[" + b" ,\n".join(items) + b" ]"
    assert len(text) > 2 * elements.WINDOW
    assert [bytes(element) for element in split(text, 1, len(text) - 1)] == items
