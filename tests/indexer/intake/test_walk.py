"""Pages that are followed by cursor, page number or link, and what the source sends for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.errors import SourceError
from tests.support.running import Json, examples
from tests.support.sources.feeds import (
    QUICK,
    RESOURCES,
    Behaviour,
    Exchange,
    Server,
    failing,
    failure,
    fetch_feed,
    items_of,
    misbehaving,
    pages_of,
    redirecting,
    resource,
    sending,
    source_of,
)

State = Callable[[Server, int, bool], Json]
"""Returns the pagination of the page of a number, and of the last one."""


def paged(parameter: str, state: State, first: int = 0, size: int = 10) -> Behaviour:
    """Serve pages that a parameter of their own selects, from `first` on; others are ignored."""

    def behave(exchange: Exchange) -> None:
        number = int(exchange.parameters.get(parameter, first)) - first
        items = RESOURCES[number * size :][:size]
        is_last = (number + 1) * size >= len(RESOURCES)
        exchange.respond({"resources": items} | state(exchange.server, number + first, is_last))

    return behave


def by_cursor(_: Server, number: int, is_last: bool) -> Json:
    return {
        "partialResults": not is_last,
        "pagination": {"limit": 10, "cursor": None if is_last else str(number + 1)},
    }


def by_number(_: Server, number: int, is_last: bool) -> Json:
    return {"page": number, "pages": 3, "hasMore": not is_last}


def by_url(server: Server, number: int, is_last: bool) -> Json:
    return {"next": None if is_last else f"{server.url}?page={number + 1}"}


def linked(exchange: Exchange) -> None:
    number = int(exchange.parameters.get("page", "0"))
    headers = {"Link": f'<?page={number + 1}>; rel="next", <?page=0>; rel="first"'}
    items = RESOURCES[number * 10 :][:10]
    exchange.respond({"items": items}, headers=headers if number < 2 else {})


def linked_array(exchange: Exchange) -> None:
    number = int(exchange.parameters.get("page", "0"))
    headers = {"Link": f'<?page={number + 1}>; rel="next"'} if number < 2 else {}
    exchange.respond(RESOURCES[number * 10 :][:10], headers=headers)


FOLLOWED: dict[str, Behaviour] = {
    "Link header of an array": linked_array,
    "cursors below paging": paged(
        "after",
        lambda _, number, is_last: {
            "paging": {"cursors": {"after": None if is_last else str(number + 1)}}
        },
    ),
    "a number in an object of a page": paged(
        "page",
        lambda _, number, __: {"page": {"number": number, "totalPages": 3, "totalElements": 25}},
    ),
    "the last page of several": paged(
        "page", lambda _, number, __: {"meta": {"current_page": number, "last_page": 3}}, first=1
    ),
    "a token to scroll by": paged(
        "scroll_id", lambda _, number, is_last: {"scroll_id": None if is_last else str(number + 1)}
    ),
    "a member that continues": paged(
        "continue",
        lambda _, number, is_last: {
            "metadata": {"continue": "" if is_last else str(number + 1), "remainingItemCount": 0}
        },
    ),
    "cursor": paged("cursor", by_cursor),
    "next cursor beside the list": paged(
        "cursor", lambda _, number, is_last: {"nextCursor": "" if is_last else str(number + 1)}
    ),
    "opaque next": paged(
        "cursor", lambda _, number, is_last: {"next": None if is_last else str(number + 1)}
    ),
    "page number": paged("page", by_number, first=1),
    "page number from zero": paged("page", by_number),
    "page number and a total": paged(
        "page",
        lambda _, number, __: {"pagination": {"page": number, "limit": 10, "total": 25}},
        first=1,
    ),
    "page number and a total alone": paged(
        "page", lambda _, number, __: {"page": number, "total": 25}
    ),
    "page number and hasMore": paged(
        "page", lambda _, number, is_last: {"page": number, "hasMore": not is_last}, first=1
    ),
    "absolute URL": paged("page", by_url),
    "relative URL": paged(
        "page",
        lambda _, number, is_last: {"links": {} if is_last else {"next": f"?page={number + 1}"}},
    ),
    "link object": paged(
        "page",
        lambda _, number, is_last: {
            "_links": {} if is_last else {"next": {"href": f"/x?page={number + 1}"}}
        },
    ),
    "Link header": linked,
}


@pytest.mark.parametrize("way", FOLLOWED)
def test_every_page_is_followed_by(way: str, cache: Path) -> None:
    with misbehaving(FOLLOWED[way]) as server:
        feed = fetch_feed(server.url, cache)
    assert (items_of(feed), feed.fetched.note) == (RESOURCES, "")
    assert len(server.requests) <= 5


def test_a_list_that_says_it_has_no_more_pages_costs_one_request(cache: Path) -> None:
    for pagination in ({"hasMore": False}, {"page": 1, "pages": 1}, {"page": 0, "total": 25}):
        with misbehaving(sending({"items": RESOURCES} | pagination)) as server:
            feed = fetch_feed(server.url, cache)
        assert (items_of(feed), feed.fetched.note, len(server.requests)) == (RESOURCES, "", 1)


def test_an_empty_page_that_names_its_own_cursor_is_the_end(cache: Path) -> None:
    def behave(exchange: Exchange) -> None:
        start = int(exchange.parameters.get("cursor", "0"))
        items = RESOURCES[start : start + 10]
        exchange.respond({"items": items, "cursor": str(start + len(items))})

    with misbehaving(behave) as server:
        assert items_of(fetch_feed(server.url, cache)) == RESOURCES


REPEATED: dict[str, Json] = {
    "a cursor": {"pagination": {"cursor": "x"}},
    "another page": {"next": "?page=2"},
    "more": {"hasMore": True},
    "partial results": {"partialResults": True},
    "a page count": {"page": 1, "pages": 3},
    "truncated": {"truncated": True},
    "last": {"last": False},
    "a key of an object": {"LastEvaluatedKey": {"id": "x"}},
}


@pytest.mark.parametrize("promise", REPEATED)
def test_a_page_that_repeats_is_an_error_where_it_promises(promise: str, cache: Path) -> None:
    error = failure(sending({"items": RESOURCES[:10]} | REPEATED[promise]), cache)
    assert "after 10 items; check how the server names the next page" in error
    if promise in {"more", "partial results", "truncated", "last", "a key of an object"}:
        assert f"its last page has `{next(iter(REPEATED[promise]))}`, and no page" in error
    else:
        assert "a page repeats although the server promises another one" in error


def test_cursors_without_end_that_bring_nothing_new_are_an_error(cache: Path) -> None:
    def behave(exchange: Exchange) -> None:
        cursor = int(exchange.parameters.get("cursor", "0"))
        exchange.respond({"items": RESOURCES[:3], "cursor": str(cursor + 1)})

    assert "a page repeats although" in failure(behave, cache)


def test_a_cursor_that_makes_no_url_is_an_error(cache: Path) -> None:
    page = {"items": RESOURCES[:3], "nextCursor": "%" * 30_000}
    assert "makes no URL" in failure(sending(page), cache)


def test_empty_pages_without_end_are_limited(cache: Path) -> None:
    def behave(exchange: Exchange) -> None:
        cursor = int(exchange.parameters.get("cursor", "0"))
        exchange.respond({"items": [], "cursor": str(cursor + 1)})

    limits = msgspec.structs.replace(QUICK, pages=20)
    assert "has more than 20 pages" in failure(behave, cache, limits)


@pytest.mark.parametrize(
    ("link", "message"),
    [
        (
            "https://other.example/x?key=secret",
            "'https://other.example/x' as the next page, which has another origin",
        ),
        ("ftp://127.0.0.1/x", "'ftp://127.0.0.1/x' as the next page, which cannot be requested"),
        ("http://[bad]/", "which cannot be requested"),
    ],
)
def test_a_next_page_elsewhere_is_an_error(link: str, message: str, cache: Path) -> None:
    for behaviour in (
        sending({"items": RESOURCES[:10]}, {"Link": f'<{link}>; rel="next"'}),
        sending({"items": RESOURCES[:10], "next": link}),
    ):
        error = failure(behaviour, cache)
        assert message in error
        assert "secret" not in error


@pytest.mark.parametrize("status", [400, 500, 503, 302])
def test_a_refused_page_size_costs_one_attempt(status: int, cache: Path) -> None:
    whole = pages_of(RESOURCES)

    def behave(exchange: Exchange) -> None:
        (failing(status) if exchange.limit(10) > 10 else whole)(exchange)

    with misbehaving(behave) as server:
        assert items_of(fetch_feed(server.url, cache)) == RESOURCES
    assert len([query for query in server.queries if "limit=200" in query]) == 1


def test_more_items_than_the_source_may_have_are_an_error(cache: Path) -> None:
    with misbehaving(pages_of(RESOURCES)) as server:
        feed = fetch_feed(source_of(server.url, max_items=25), cache)
        assert items_of(feed) == RESOURCES
        with pytest.raises(SourceError, match="has more than 15 items; raise `max_items`"):
            fetch_feed(source_of(server.url, max_items=15), cache)


SECRETS = {"headers": {"Authorization": "Bearer secret"}, "params": {"apikey": "secret"}}


def carries(server: Server) -> set[tuple[Any, bool]]:
    """Return the header and whether the parameter was sent, of all requests."""
    return {
        (request.headers["Authorization"], "apikey=secret" in request.query)
        for request in server.requests
    }


def stored(cache: Path) -> list[str]:
    return [path.read_text() + str(path) for path in cache.rglob("*") if path.is_file()]


@pytest.mark.parametrize("way", ["cursor", "page number", "relative URL", "absolute URL"])
def test_headers_and_parameters_are_sent_with_every_page_and_kept_nowhere(
    way: str, cache: Path
) -> None:
    with misbehaving(FOLLOWED[way]) as server:
        source = source_of(f"{server.url}?key=secret", **SECRETS)
        feed = fetch_feed(source, cache)
        assert items_of(feed) == RESOURCES
        assert carries(server) == {("Bearer secret", True)}
        server.behaviour = failing(404)
        with pytest.raises(SourceError) as raised:
            fetch_feed(source, cache)
    assert not any("secret" in text for text in [str(raised.value), repr(feed), *stored(cache)])


def test_headers_and_parameters_never_leave_the_origin_of_the_url(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.intake.connections.is_public", lambda _: True)
    with misbehaving(FOLLOWED["relative URL"]) as other:
        target = f"{other.url}?token=t#f"
        with misbehaving(redirecting(target)) as server:
            feed = fetch_feed(source_of(server.url, **SECRETS), cache)
    assert items_of(feed) == RESOURCES
    assert carries(server) == {("Bearer secret", True)}
    assert carries(other) == {(None, False)}


def test_a_parameter_of_the_url_is_not_sent_twice(cache: Path) -> None:
    with misbehaving(pages_of(RESOURCES)) as server:
        source = source_of(f"{server.url}?type=http", params={"type": "mcp", "limit": "7"})
        assert items_of(fetch_feed(source, cache)) == RESOURCES
    assert server.queries[0] == "type=http&limit=7"
    assert server.queries[1] == "type=http&limit=7&offset=7"


def by_token(name: str, parameter: str, place: str = "") -> Behaviour:
    """Serve pages whose next one a member names, under a name of its own, and a parameter asks."""

    def behave(exchange: Exchange) -> None:
        start = int(exchange.parameters.get(parameter, "0"))
        end = start + 10
        stated: Any = {name: end if end < len(RESOURCES) else None}
        exchange.respond({"items": RESOURCES[start:end]} | ({place: stated} if place else stated))

    return behave


TOKENS = [
    ("nextCursor", "cursor", ""),
    ("nextCursor", "cursor", "metadata"),
    ("nextCursor", "cursor", "meta"),
    ("nextPageToken", "pageToken", ""),
    ("next_page_token", "page_token", "pagination"),
    ("nextToken", "token", ""),
    ("endCursor", "after", "pageInfo"),
    ("nextOffset", "offset", ""),
]


@pytest.mark.parametrize(("name", "parameter", "place"), TOKENS)
def test_a_cursor_is_followed_under_any_of_its_names(
    name: str, parameter: str, place: str, cache: Path
) -> None:
    with misbehaving(by_token(name, parameter, place)) as server:
        feed = fetch_feed(server.url, cache)
    assert (items_of(feed), feed.fetched.note) == (RESOURCES, "")


UNFOLLOWED = [
    {"resumeToken": "x"},
    {"meta": {"more_items": {"start": 10}}},
    {"pagination": {"next": 3}},
    {"after_id": 7},
    {"pageInfo": {"continuation": "x"}},
    {"hasMore": "yes"},
]


@pytest.mark.parametrize("member", UNFOLLOWED)
def test_a_continuation_that_is_not_followed_is_an_error_that_names_it(
    member: Json, cache: Path
) -> None:
    inner = next(iter(member.values()))
    name = next(iter(inner)) if isinstance(inner, dict) else next(iter(member))
    error = failure(sending({"items": RESOURCES[:10]} | member), cache)
    assert f"its last page has `{name}`, and no page with a new item follows" in error


@pytest.mark.parametrize("empty", [None, False, 0, "", [], {}])
def test_an_empty_continuation_is_none(empty: Any, cache: Path) -> None:
    body = {"items": RESOURCES, "resumeToken": empty, "next": empty, "total": 25, "limit": 50}
    with misbehaving(sending(body)) as server:
        assert items_of(fetch_feed(server.url, cache)) == RESOURCES


def missing_past_the_end(total: int | None = None, size: int = 10) -> Behaviour:
    """Serve pages by offset, and 404 past the end."""

    def behave(exchange: Exchange) -> None:
        items = RESOURCES[exchange.offset :][:size]
        if items:
            exchange.respond({"items": items} | ({} if total is None else {"total": total}))
        else:
            failing(404)(exchange)

    return behave


def test_a_404_behind_a_short_page_is_the_end(cache: Path) -> None:
    with misbehaving(missing_past_the_end()) as server:
        assert items_of(fetch_feed(server.url, cache)) == RESOURCES


@pytest.mark.parametrize(
    "behaviour",
    [missing_past_the_end(size=5), missing_past_the_end(total=30)],
    ids=["behind a full page", "before the total"],
)
def test_a_404_that_may_hide_items_is_an_error(behaviour: Behaviour, cache: Path) -> None:
    assert "answers 404 Not Found" in failure(behaviour, cache)


def test_a_walk_that_fails_leaves_what_was_read(cache: Path) -> None:
    with misbehaving(pages_of(RESOURCES)) as server:
        before = fetch_feed(server.url, cache)
        server.behaviour = sending({"items": RESOURCES[:10], "resumeToken": "x"})
        with pytest.raises(SourceError, match="`resumeToken`"):
            fetch_feed(server.url, cache)
        assert fetch_feed(source_of(server.url, every=3600), cache) == before


class SimulatedServer:
    """A server of `count` items by offset; its total and its end are right, absent or wrong."""

    def __init__(self, count: int, most: int, total: str, end: str) -> None:
        self.items = [resource(number) for number in range(count)]
        self.most, self.total, self.end = most, total, end

    def __call__(self, exchange: Exchange) -> None:
        offset = exchange.offset
        if self.end == "clamped":
            offset = max(0, min(offset, len(self.items) - self.most))
        if self.end == "repeated" and offset >= len(self.items):
            offset = max(0, len(self.items) - 1) // self.most * self.most
        items = self.items[offset:][: self.most]
        totals = {"right": len(self.items), "small": len(self.items) // 3, "page": len(items)}
        stated = {"total": totals[self.total]} if self.total in totals else {}
        exchange.respond({"items": items} | stated)


@settings(max_examples=examples(40), deadline=None)
@given(
    count=st.integers(0, 25),
    most=st.integers(1, 12),
    total=st.sampled_from(["right", "none", "page", "small"]),
    end=st.sampled_from(["empty", "repeated", "clamped"]),
)
def test_a_walk_has_every_item_once(
    tmp_path_factory: pytest.TempPathFactory, count: int, most: int, total: str, end: str
) -> None:
    simulated = SimulatedServer(count, most, total, end)
    with misbehaving(simulated) as server:
        feed = fetch_feed(server.url, tmp_path_factory.mktemp("walk"))
    assert items_of(feed) == simulated.items
    assert len(server.requests) <= count // most + 5
