"""Pagination in the forms in which servers state it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from indexer.containers.pagination import NONE, StatedPagination, decode_members, read_pagination


def stated(members: Any) -> StatedPagination:
    return read_pagination(decode_members(json.dumps(members).encode()))


FORMS: list[tuple[Any, StatedPagination]] = [
    ({"total": 7, "limit": 5, "offset": 0}, StatedPagination(total=7, limit=5, offset=0)),
    ({"pagination": {"total": 7}, "total": 9}, StatedPagination(total=7)),
    ({"pagination": {"totalItems": "7"}}, StatedPagination(total=7)),
    (
        {"count": 7, "next": "https://a.example/?o=5"},
        StatedPagination(total=7, next="https://a.example/?o=5"),
    ),
    (
        {"meta": {"total_count": 7, "total_pages": 2, "page": 1}},
        StatedPagination(total=7, page=1, pages=2),
    ),
    ({"next": "/x?cursor=1"}, StatedPagination(next="/x?cursor=1")),
    ({"next": "Zm9vYmFy"}, StatedPagination(cursor="Zm9vYmFy")),
    ({"_links": {"next": {"href": "page/2"}}}, StatedPagination(next="page/2")),
    ({"links": {"next": {"url": "?p=2"}}}, StatedPagination(next="?p=2")),
    ({"cursor": "this", "nextCursor": "that"}, StatedPagination(cursor="that")),
    ({"pagination": {"cursor": None}, "partialResults": True}, StatedPagination(more=True)),
    ({"pagination": {"has_more": False}}, StatedPagination(more=False)),
    ({"total": -1, "limit": 1.5, "next": 3, "cursor": [], "hasMore": "yes", "page": {}}, NONE),
    ({"pagination": [1], "links": None, "meta": "x"}, NONE),
]


@pytest.mark.parametrize(("members", "pagination"), FORMS)
def test_pagination_is_read_from(members: Any, pagination: StatedPagination) -> None:
    assert stated(members) == pagination


@pytest.mark.parametrize(
    "members", [{"next": "?p"}, {"cursor": "x"}, {"hasMore": True}, {"page": 1, "pages": 2}]
)
def test_more_is_promised_by(members: Any) -> None:
    assert stated(members).promises_more


@pytest.mark.parametrize(
    "members", [{"total": 99, "limit": 5}, {"hasMore": False}, {"page": 2, "pages": 2}, {}]
)
def test_no_more_is_promised_by(members: Any) -> None:
    assert not stated(members).promises_more


def test_the_number_of_pages_follows_from_the_total() -> None:
    assert stated({"total": 21, "limit": 10}).last_page == 3
    assert stated({"total": 20, "limit": 10, "pages": 5}).last_page == 5
    assert stated({"total": 20, "limit": 0}).last_page is None
