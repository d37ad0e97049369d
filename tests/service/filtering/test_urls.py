"""Parts of URLs, compared with brute force, and bounds on the work of a search."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.filtering import urls as module
from service.filtering.urls import CHUNK, DENSE, Urls
from service.search.postings import Integers
from tests.support.running import examples

texts = st.text("ab/", max_size=40) | st.builds(str.__mul__, st.text("ab", max_size=3), st.just(40))


def index_of(urls: list[str]) -> Urls:
    lines = [f"{url}\n".encode() for url in urls]
    starts = np.cumsum([0, *map(len, lines)], dtype=np.int64)[:-1]
    return Urls(b"".join(lines), starts)


@settings(max_examples=examples(300), deadline=None)
@given(st.data(), st.lists(texts, max_size=12), st.sampled_from((1, 64, CHUNK)), st.booleans())
def test_urls_with_a_part_are_those_of_brute_force(
    data: st.DataObject, urls: list[str], chunk: int, is_dense: bool
) -> None:
    source = data.draw(st.sampled_from([*urls, "a/"]))
    start = data.draw(st.integers(0, len(source)))
    part = source[start : data.draw(st.integers(start, len(source)))] or "b"
    part += data.draw(st.sampled_from(("", "a", "\n")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK", chunk)
        patch.setattr(module, "DENSE", DENSE if is_dense else 1)
        mask = index_of(urls).containing(part.upper())
    assert mask.tolist() == [part in url for url in urls]


@pytest.mark.parametrize(
    ("urls", "part"),
    [
        (["a" * 1000] * 200, "a" * 500 + "b"),
        (["https://a.example/" + "ab" * 500] * 200, "ab" * 400 + "c"),
        ([f"https://a.example/v1/the/same/long/path/of/all/{n}" for n in range(2000)], "/" * 3),
        (
            [f"https://a.example/v1/the/same/long/path/of/all/{n}" for n in range(2000)],
            "https://a.example/v1/the/same/long/path/of/all/x",
        ),
    ],
)
def test_work_is_linear_in_the_bytes_of_the_urls(
    urls: list[str], part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared, searched = 0, 0
    compare, search_each = Urls.compare, Urls.search_each

    def counting_compare(self: Urls, wanted: bytes, places: Integers, *words: Any) -> Integers:
        nonlocal compared
        compared += len(places)
        return compare(self, wanted, places, *words)

    def counting_search(self: Urls, wanted: bytes, first: int, owners: list[int]) -> Integers:
        nonlocal searched
        searched += len(owners)
        return search_each(self, wanted, first, owners)

    monkeypatch.setattr(Urls, "compare", counting_compare)
    monkeypatch.setattr(Urls, "search_each", counting_search)
    assert index_of(urls).containing(part).tolist() == [part in url for url in urls]
    assert compared <= 2 * sum(map(len, urls)) / DENSE
    assert searched <= len(urls)
