"""Pagination in the forms in which servers state it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from indexer.intake.pagination import NONE, Continuation, StatedPagination, read_pagination


def stated(members: Any) -> StatedPagination:
    return read_pagination(json.dumps(members).encode())


def cursor(value: str, parameter: str = "cursor") -> Continuation:
    return Continuation(parameter, value)


FORMS: list[tuple[Any, dict[str, Any]]] = [
    ({"total": 7, "limit": 5, "offset": 0}, {"total": 7, "limit": 5, "offset": 0}),
    ({"pagination": {"total": 7}, "total": 9}, {"total": 7}),
    ({"pagination": {"totalItems": "7"}}, {"total": 7}),
    (
        {"count": 7, "next": "https://a.example/?o=5"},
        {"total": 7, "next": "https://a.example/?o=5"},
    ),
    (
        {"meta": {"total_count": 7, "total_pages": 2, "page": 1}},
        {"total": 7, "page": 1, "pages": 2},
    ),
    ({"next": "/x?cursor=1"}, {"next": "/x?cursor=1"}),
    ({"next": "Zm9vYmFy"}, {"cursor": cursor("Zm9vYmFy")}),
    ({"_links": {"next": {"href": "page/2"}}}, {"next": "page/2"}),
    ({"links": {"next": {"url": "?p=2"}}}, {"next": "?p=2"}),
    ({"links": [{"rel": "self", "href": "/a"}, {"rel": "next", "href": "/b"}]}, {"next": "/b"}),
    ({"cursor": "this", "nextCursor": "that"}, {"cursor": cursor("that")}),
    ({"nextCursor": 3}, {"cursor": cursor("3")}),
    ({"metadata": {"nextCursor": "x", "count": 3}}, {"cursor": cursor("x"), "total": 3}),
    ({"meta": {"pagination": {"next_cursor": "x"}}}, {"cursor": cursor("x")}),
    ({"nextPageToken": "x"}, {"cursor": cursor("x", "pageToken")}),
    ({"next_page_token": "x"}, {"cursor": cursor("x", "page_token")}),
    ({"NextToken": "x"}, {"cursor": cursor("x", "token")}),
    (
        {"pageInfo": {"endCursor": "x", "hasNextPage": True}},
        {"cursor": cursor("x", "after"), "more": True},
    ),
    ({"pageInfo": {"endCursor": "x", "hasNextPage": False}}, {"more": False}),
    ({"nextOffset": 20}, {"cursor": cursor("20", "offset")}),
    ({"nextPage": 2}, {"cursor": cursor("2", "page")}),
    ({"pagination": {"cursor": None}, "partialResults": True}, {"more": True}),
    ({"pagination": {"has_more": False}}, {"more": False}),
    ({"has_more": "true"}, {"more": True}),
    ({"total": -1, "limit": 1.5, "cursor": [], "page": {}}, {}),
    ({"pagination": [1], "links": None, "meta": "x"}, {}),
]


@pytest.mark.parametrize(("members", "expected"), FORMS)
def test_pagination_is_read_from(members: Any, expected: dict[str, Any]) -> None:
    found = stated(members)
    given = {name: getattr(found, name) for name in found.__struct_fields__ if name != "promises"}
    default = {name: getattr(NONE, name) for name in given}
    assert given == default | expected


PROMISES = [
    ({"cursor": "x"}, ("cursor",)),
    ({"hasMore": True}, ("hasMore",)),
    ({"moreItemsToken": "x"}, ("moreItemsToken",)),
    ({"meta": {"resume_after": "x"}}, ("resume_after",)),
    ({"next": {"offset": 10}}, ("next",)),
    ({"next": 3}, ("next",)),
    ({"hasMore": "yes"}, ("hasMore",)),
]
NO_PROMISES: list[Any] = [
    {"next": None, "cursor": "", "hasMore": False, "nextCursor": 0, "after": [], "more": {}},
    {"prevCursor": "x", "startCursor": "x", "first": "/x", "self": "/x"},
    {"nextcloud": "x", "aftermath": "x", "tokens": ["USDC"], "name": "next"},
    {"pageInfo": {"endCursor": "x", "hasNextPage": False}},
    {"facilitator": {"token": "USDC"}},
    {"total": 99, "limit": 5},
]


@pytest.mark.parametrize(("members", "names"), PROMISES)
def test_a_member_that_looks_like_a_continuation_promises_more(
    members: Any, names: tuple[str, ...]
) -> None:
    assert stated(members).promises == names


@pytest.mark.parametrize("members", NO_PROMISES)
def test_no_more_is_promised_by(members: Any) -> None:
    assert stated(members).promises == ()


def test_a_header_comes_before_the_envelope() -> None:
    assert read_pagination(b'{"next": "/x"}', "?page=2").next == "?page=2"


def test_the_number_of_pages_follows_from_the_total() -> None:
    assert stated({"total": 21, "limit": 10}).last_page == 3
    assert stated({"total": 20, "limit": 10, "pages": 5}).last_page == 5
    assert stated({"total": 20, "limit": 0}).last_page is None
