"""Parts of URLs, compared with brute force, and bounds on the work of a search."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from service.filtering.urls import Urls
from tests.support.running import examples

texts = st.text("ab/", max_size=40) | st.builds(str.__mul__, st.text("ab", max_size=3), st.just(40))


def index_of(urls: list[str]) -> Urls:
    lines = [f"{url}\n".encode() for url in urls]
    starts = np.cumsum([0, *map(len, lines)], dtype=np.int64)[:-1]
    return Urls(np.frombuffer(b"".join(lines), np.uint8), starts)


@settings(max_examples=examples(300), deadline=None)
@given(st.data(), st.lists(texts, max_size=12))
def test_urls_with_a_part_are_those_of_brute_force(data: st.DataObject, urls: list[str]) -> None:
    source = data.draw(st.sampled_from([*urls, "a/"]))
    start = data.draw(st.integers(0, len(source)))
    part = source[start : data.draw(st.integers(start, len(source)))] or "b"
    part += data.draw(st.sampled_from(("", "a", "\n")))
    mask = index_of(urls).containing(part.upper())
    assert mask.tolist() == [part in url for url in urls]


def test_long_parts_are_found_at_every_place() -> None:
    urls = [f"https://a.example/v1/the/same/long/path/of/all/{n}" for n in range(200)] + ["a" * 90]
    for part in (*urls[7:9], urls[0][3:47], "a" * 50 + "b", "a" * 60, "/v1/the/"):
        assert index_of(urls).containing(part).tolist() == [part in url for url in urls]
