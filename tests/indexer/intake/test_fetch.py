"""Reading complete feeds, also from servers with errors in their pagination."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from indexer.errors import SourceError
from indexer.intake.fetch import Feed, fetch_feeds
from indexer.intake.kept import LINES_SUFFIX
from indexer.intake.lists import read_records
from indexer.options import Kind, Limits
from indexer.text import MAX_RECORD
from tests.support.running import Json, service
from tests.support.sources.feeds import (
    LINES,
    QUICK,
    RESOURCES,
    SERVICES,
    WHOLE,
    Behaviour,
    Exchange,
    failing,
    failure,
    fetch_feed,
    in_turn,
    items_of,
    misbehaving,
    pages_of,
    resource,
    sending,
    source_of,
)


@pytest.mark.parametrize("name", ["items", "resources", "services"])
def test_all_pages_are_read_and_their_items_become_lines(name: str, cache: Path) -> None:
    items = SERVICES if name == "services" else RESOURCES
    with misbehaving(pages_of(items, name=name)) as server:
        feed = fetch_feed(server.url, cache)
    assert items_of(feed) == items
    assert (feed.fetched.note, feed.path.suffix) == ("", LINES_SUFFIX)
    assert [record.position for record in read_records(str(feed.path))][-1] == "line 25"


@pytest.mark.parametrize("size", [1, 2, 10])
def test_pages_of_json_lines_have_all_items(size: int, cache: Path) -> None:
    def page(exchange: Exchange) -> None:
        end = exchange.offset + size
        lines = b"\n".join(map(msgspec.json.encode, RESOURCES[exchange.offset : end]))
        more = {"Link": f'<?offset={end}>; rel="next"'} if end < len(RESOURCES) else {}
        exchange.respond(lines, headers={"X-Total-Count": str(len(RESOURCES))} | more)

    with misbehaving(page) as server:
        assert items_of(fetch_feed(server.url, cache)) == RESOURCES


def test_items_are_unchanged_byte_for_byte(cache: Path) -> None:
    texts = [
        '{"resource":"https://a.example/1","accepts":[],"n":12345678901234567890123,"x":1.50}',
        '{"resource": "https://a.example/2", "accepts": [], "t": "\\u00e9\\n  \\ud83d\\ude00"}',
        '{"resource":"https://a.example/4","accepts":[],"t":"one half \\ud83d","u":"\\\\ud83d"}',
        '{"resource":"https://a.example/3","accepts":[],"t":"é","t":"twice"}',
    ]
    body = f'{{"items":[{",".join(texts)}],"pagination":{{"total":4,"limit":9}}}}'
    with misbehaving(sending(body.encode())) as server:
        feed = fetch_feed(server.url, cache)
        assert feed.path.read_text().splitlines() == texts
    with misbehaving(sending(body.replace('","', '"\n ,\r\n"').encode())) as server:
        feed = fetch_feed(server.url, cache)
    assert len(list(read_records(str(feed.path)))) == 4


def test_a_document_that_is_too_long_is_not_read_to_its_end(cache: Path) -> None:
    body = gzip.compress(b" " * (4 * MAX_RECORD) + b"{}", 1)
    with misbehaving(sending(body)) as server:
        source = msgspec.structs.replace(source_of(server.url), kind=Kind.MANIFEST)
        (error,) = fetch_feeds([source], cache, QUICK)
    assert f"is longer than the {MAX_RECORD:,} bytes that are allowed" in str(error)


def test_another_ratecard_is_a_feed(cache: Path, client: httpx.Client, seeds: list[Json]) -> None:
    url = f"{client.base_url.join('/v1/services')}?limit=7"
    feed = fetch_feed(url, cache)
    names = sorted(seed["name"] for seed in seeds)
    assert sorted(record["name"] for record in items_of(feed)) == names


def counted(total: Any, most: int = 10) -> Behaviour:
    """Serve pages with a total: a value, a function of the items of the page, or `...` for none."""

    def behave(exchange: Exchange) -> None:
        limit, offset = min(exchange.limit(most), most), exchange.offset
        page: Json = {"items": RESOURCES[offset : offset + limit]}
        if total is not ...:
            page["total"] = total(page["items"]) if callable(total) else total
        exchange.respond(page)

    return behave


def clamping(exchange: Exchange) -> None:
    """Repeat the last page for offsets past the end."""
    offset = min(exchange.offset, 20)
    exchange.respond({"items": RESOURCES[offset : offset + 10], "pagination": {"total": 25}})


def clamping_silently(exchange: Exchange) -> None:
    exchange.respond({"items": RESOURCES[min(exchange.offset, 15) :][:10]})


def without_total(items_at: Callable[[int], list[Json]]) -> Behaviour:
    return lambda exchange: exchange.respond({"resources": items_at(exchange.offset)})


TOLERATED: dict[str, Behaviour] = {
    "the limit is capped": pages_of(RESOURCES, most=4),
    "the limit is rounded up": lambda exchange: exchange.respond(
        {"items": RESOURCES[exchange.offset // 8 * 8 :][:8], "total": 25, "limit": 8}
    ),
    "a longer limit is refused": lambda exchange: (
        exchange.respond({"error": "limit"}, 400) if exchange.limit(10) > 10 else WHOLE(exchange)
    ),
    "no page has a total": counted(...),
    "the total is the length of the page": counted(len),
    "the total is too small": counted(7),
    "the total is null": counted(None),
    "the total is text": counted("25"),
    "the total is a word": counted("many"),
    "the total is negative": counted(-1),
    "the total is a list": counted([25]),
    "the last page is repeated past the end": clamping,
    "the last page is repeated without a total": without_total(
        lambda offset: RESOURCES[min(offset // 10 * 10, 20) :][:10]
    ),
    "all items are sent at every offset": without_total(lambda _: RESOURCES),
    "the list is null past the end": lambda exchange: exchange.respond(
        {"items": RESOURCES[exchange.offset :][:10] or None}
    ),
    "a page is repeated": in_turn(
        WHOLE, sending({"items": RESOURCES[:10], "pagination": {"total": 25}}), WHOLE
    ),
    "the last page is longer and repeated": clamping_silently,
    "a page is empty once": in_turn(WHOLE, WHOLE, sending({"items": [], "total": 25}), WHOLE),
    "every third answer fails": in_turn(
        *[failing(503), WHOLE, WHOLE, failing(500), WHOLE, failing(429), WHOLE]
    ),
    "a page is cut short": in_turn(
        WHOLE, lambda exchange: exchange.respond_truncated(b'{"items":[{"resource"', 900), WHOLE
    ),
    "the connection is lost": in_turn(Exchange.hang_up, WHOLE, Exchange.hang_up, WHOLE),
    "a page is not JSON": in_turn(WHOLE, sending(b'{"items":[{"a":'), WHOLE),
    "a page is HTML": in_turn(WHOLE, sending(b"<html>one moment</html>"), WHOLE),
    "a page is a message": in_turn(WHOLE, sending({"message": "one moment"}), WHOLE),
    "a page is not UTF-8": in_turn(WHOLE, sending(b'{"items":["\xff\xff"}'), WHOLE),
    "a page is a plain file": in_turn(WHOLE, sending([]), WHOLE),
    "the compressed data is cut short": in_turn(
        WHOLE,
        sending(gzip.compress(b'{"items":[]}')[:-9], {"Content-Encoding": "gzip"}),
        WHOLE,
    ),
    "gzip is declared by mistake": sending(
        json.dumps({"items": RESOURCES}).encode(), {"Content-Encoding": "gzip"}
    ),
    "pages are compressed": lambda exchange: exchange.respond_compressed(
        json.dumps({"items": RESOURCES[exchange.offset :][:10], "total": 25}).encode()
    ),
}


REPEATS = "repeats a page instead of an end: its 25 items count as all"
NOTES = {
    "the last page is repeated without a total": REPEATS,
    "all items are sent at every offset": REPEATS,
    "the last page is longer and repeated": REPEATS,
    "gzip is declared by mistake": REPEATS,
}


@pytest.mark.parametrize("case", TOLERATED)
def test_a_complete_feed_is_read_although(case: str, cache: Path) -> None:
    with misbehaving(TOLERATED[case]) as server:
        feed = fetch_feed(server.url, cache)
    assert items_of(feed) == RESOURCES
    assert feed.fetched.note == NOTES.get(case, "")


def test_other_parameters_of_the_url_are_unchanged(cache: Path) -> None:
    with misbehaving(WHOLE) as server:
        feed = fetch_feed(f"{server.url}?type=a%20b&limit=7&flag&offset=3&type=c", cache)
    assert items_of(feed) == RESOURCES[3:]
    assert server.queries == [
        "type=a%20b&limit=7&flag&offset=3&type=c",
        *[f"type=a%20b&flag&type=c&limit=7&offset={offset}" for offset in (10, 17, 24)],
    ]


def test_a_page_that_holds_all_items_costs_one_request(cache: Path) -> None:
    with misbehaving(pages_of(RESOURCES, most=50)) as server:
        assert items_of(fetch_feed(server.url, cache)) == RESOURCES
    assert server.queries == [""]


@pytest.mark.parametrize("body", [{"items": []}, {"services": [], "total": 0}, []])
def test_an_empty_feed_is_an_empty_list(body: Any, cache: Path) -> None:
    with misbehaving(sending(body)) as server:
        assert items_of(fetch_feed(server.url, cache)) == []


PLAIN_FILES = {
    "lines": LINES,
    "lines without the last newline": LINES.rstrip(),
    "lines after blank ones": b"\xef\xbb\xbf\n \n" + LINES,
    "an array": json.dumps(SERVICES, indent=1).encode(),
    "an array after a byte order mark": b"\xef\xbb\xbf" + json.dumps(SERVICES).encode(),
    "a gzip file": gzip.compress(LINES),
    "a gzip file of two members": gzip.compress(LINES[:999])
    + gzip.compress(LINES[999:])
    + bytes(512),
    "a compressed gzip file": gzip.compress(gzip.compress(LINES)),
}


@pytest.mark.parametrize("form", PLAIN_FILES)
def test_a_plain_file_costs_one_request_and_is_unchanged(form: str, cache: Path) -> None:
    headers = {"Content-Encoding": "gzip"} if form == "a compressed gzip file" else {}
    with misbehaving(sending(PLAIN_FILES[form], headers)) as server:
        feed = fetch_feed(server.url, cache)
    assert items_of(feed) == SERVICES
    assert len(server.queries) == 1


def test_a_single_record_is_a_plain_file(cache: Path) -> None:
    for record in (SERVICES[0] | {"services": []}, RESOURCES[0] | {"items": []}):
        with misbehaving(sending(record)) as server:
            assert items_of(fetch_feed(server.url, cache)) == [record]


def test_services_of_one_id_are_kept_in_order_and_duplicates_read_once(cache: Path) -> None:
    later, without_id = service("s0", name="later"), service(None)
    services = [*SERVICES, without_id, later, without_id]
    with misbehaving(sending({"services": services, "total": 28})) as server:
        feed = fetch_feed(server.url, cache)
    assert items_of(feed) == [*SERVICES, without_id, later]
    assert feed.fetched.note == ""


def changing(*feeds: list[Json], marked: bool = False) -> Behaviour:
    """Serve each request from the next state of a feed, and later ones from the last state."""
    left = [(feed, f"m{number}") for number, feed in enumerate(feeds)]

    def behave(exchange: Exchange) -> None:
        items, mark = left.pop(0) if len(left) > 1 else left[0]
        page = items[exchange.offset : exchange.offset + 10]
        headers = {"Ratecard-Snapshot": mark} if marked else {"ETag": '"one"'}
        exchange.respond({"items": page, "total": 25 if marked else len(items)}, headers=headers)

    return behave


def test_an_item_that_shifts_during_a_walk_is_missed_until_the_next_one(cache: Path) -> None:
    shrunk = RESOURCES[1:]
    with misbehaving(changing(RESOURCES, RESOURCES, shrunk)) as server:
        assert items_of(fetch_feed(server.url, cache)) == RESOURCES[:20] + RESOURCES[21:]
        assert items_of(fetch_feed(server.url, cache)) == shrunk


def test_a_feed_that_grows_at_its_end_during_a_walk_is_walked_once(cache: Path) -> None:
    with misbehaving(changing(RESOURCES[:23], RESOURCES[:23], RESOURCES)) as server:
        feed = fetch_feed(server.url, cache)
    assert (items_of(feed), len(server.queries)) == (RESOURCES, 3)


def test_a_feed_that_names_another_snapshot_during_a_walk_is_read_by_the_next_one(
    cache: Path,
) -> None:
    others = [resource(number) for number in range(100, 125)]
    with misbehaving(changing(RESOURCES, RESOURCES, others, marked=True)) as server:
        with pytest.raises(SourceError, match="changed while it was read; try again later"):
            fetch_feed(server.url, cache)
        assert items_of(fetch_feed(server.url, cache)) == others


FATAL: dict[str, tuple[Behaviour, str]] = {
    "always fails": (failing(500), "answers 500 Internal Server Error after 3 attempts"),
    "fails from the second page on": (in_turn(WHOLE, failing(502)), "answers 502 Bad Gateway"),
    "is not found": (failing(404), "answers 404 Not Found; check the URL"),
    "requires a user": (failing(401), "answers 401 Unauthorized; check what"),
    "answers with an unknown status": (failing(299), "answers 299; check what the server requires"),
    "is not modified although nothing was cached": (failing(304), "answers 304 Not Modified"),
    "is a web page": (
        sending(b"\n<!doctype html>"),
        "is a web page and not JSON; check the URL",
    ),
    "is empty": (
        sending(b""),
        "is empty (a list of nothing is written as []) after 3 attempts; try again later",
    ),
    "is a message": (
        sending({"message": "hello"}),
        "is not a list of services or resources",
    ),
    "is a JSON string": (sending("hello"), "is not a list of services or resources"),
    "is text": (sending(b"hello"), "is not JSON, or cut short"),
    "holds no list": (sending({"items": {"a": 1}}), "is not a list of services or resources"),
    "is nested too deeply": (sending(b"[" * 4000), "nested too deeply"),
    "ends within a line": (sending(LINES[:-9]), "ends within a line after 3 attempts"),
    "always hangs up": (Exchange.hang_up, "cannot be read: Server disconnected"),
    "is always cut short": (
        lambda exchange: exchange.respond_truncated(b"[]", 9),
        "cannot be read: peer closed",
    ),
    "is not HTTP": (
        lambda exchange: exchange.drip(b"SSH-2.0\r\n\r\n", b""),
        "cannot be read",
    ),
    "is compressed by another coding": (
        sending(b"x", {"Content-Encoding": "br"}),
        "has another content coding than gzip, which was asked for",
    ),
    "ignores the offset": (
        sending({"items": RESOURCES[:10], "total": 25}),
        "states a total of 25 items and gives 10, the same at every offset",
    ),
    "is empty in spite of its total": (
        sending({"items": [], "total": 25}),
        "states a total of 25 items and gives 0",
    ),
    "becomes empty during the walk": (
        in_turn(*[WHOLE] * 2, sending({"items": [], "total": 25})),
        "states a total of 25 items and gives 20",
    ),
    "states too large a total": (counted(26), "states a total of 26 items and gives 25"),
    "has a page that is too long": (
        in_turn(WHOLE, sending({"items": ["x" * 9999], "total": 25})),
        "is longer than the 5,000 bytes that are allowed",
    ),
    "is an array that is too long": (
        sending([resource(0, x="x" * 9999)]),
        "is one JSON text of more than 5,000 bytes; write it as JSON lines",
    ),
}


@pytest.mark.parametrize("case", FATAL)
def test_no_item_is_read_from_a_feed_that(case: str, cache: Path) -> None:
    behaviour, message = FATAL[case]
    limits = msgspec.structs.replace(QUICK, page_bytes=5000, silence=1)
    assert message in failure(behaviour, cache, limits)


@pytest.mark.parametrize("kind", [None, Kind.RECORDS, Kind.OPENAPI, Kind.PAYMENTS])
def test_paths_of_feeds_are_advice_for_feeds_alone(kind: Kind | None, cache: Path) -> None:
    with misbehaving(failing(404)) as server:
        source = msgspec.structs.replace(source_of(server.url), kind=kind)
        (error,) = fetch_feeds([source], cache, QUICK)
    assert isinstance(error, SourceError)
    start, advised, _ = str(error).partition(": feeds are mostly at /v1/services")
    assert start.endswith("answers 404 Not Found; check the URL")
    assert bool(advised) == (kind in {None, Kind.RECORDS})


def test_an_endless_feed_is_limited_by_pages_and_bytes(cache: Path) -> None:
    def endless(exchange: Exchange) -> None:
        start = exchange.offset
        exchange.respond({"items": [resource(number) for number in range(start, start + 10)]})

    by_pages = msgspec.structs.replace(QUICK, pages=20)
    assert "has more than 20 pages" in failure(endless, cache, by_pages)
    by_bytes = msgspec.structs.replace(QUICK, bytes=5000)
    assert "is longer than the 5,000 bytes" in failure(endless, cache, by_bytes)


def fetch_all(urls: list[str], cache: Path) -> list[Feed]:
    """Read several feeds, each named by its whole URL."""
    feeds = fetch_feeds([source_of(url, name=url) for url in urls], cache, QUICK)
    return [feed for feed in feeds if not isinstance(feed, SourceError)]


def test_feeds_are_read_concurrently_and_returned_in_order(cache: Path) -> None:
    both = threading.Barrier(2, timeout=20)

    def waiting(behaviour: Behaviour) -> Behaviour:
        """Respond to the first request when the other server has received one, too."""

        def behave(exchange: Exchange) -> None:
            if len(exchange.server.requests) == 1:
                both.wait()
            behaviour(exchange)

        return behave

    with misbehaving(waiting(WHOLE)) as one, misbehaving(waiting(sending(LINES))) as other:
        feeds = fetch_all([one.url, other.url], cache)
    assert [items_of(feed) for feed in feeds] == [RESOURCES, SERVICES]


def test_more_feeds_than_are_read_concurrently_are_all_read(cache: Path) -> None:
    with misbehaving(sending(LINES)) as server:
        urls = [f"{server.origin}/{number}" for number in range(20)]
        feeds = fetch_all(urls, cache)
    assert len({feed.path for feed in feeds}) == len(urls)
    assert {request.target for request in server.requests} == {f"GET /{n}" for n in range(20)}
    assert len(server.requests) == len(urls)


def test_each_feed_that_fails_is_named_in_its_place(cache: Path) -> None:
    limits = Limits(seconds=60, backoff=0.001, attempts=1)
    with (
        misbehaving(failing(503)) as failing_one,
        misbehaving(sending(LINES)) as good,
        misbehaving(failing(404)) as missing,
    ):
        urls = [failing_one.url, good.url, missing.url, "ftp://a.example/"]
        one, feed, other, invalid = fetch_feeds([source_of(url) for url in urls], cache, limits)
    assert isinstance(feed, Feed)
    assert items_of(feed) == SERVICES
    assert f"{failing_one.url}: answers 503" in str(one)
    assert f"{missing.url}: answers 404" in str(other)
    assert "ftp://a.example/: feeds are read over http and https only" in str(invalid)


def test_feeds_report_bytes_and_items(cache: Path) -> None:
    reports: list[tuple[int, int]] = []
    with misbehaving(WHOLE) as one, misbehaving(sending(LINES)) as other:
        sources = [source_of(one.url), source_of(other.url)]
        fetch_feeds(sources, cache, QUICK, lambda *counts: reports.append(counts))
    assert sum(items for _, items in reports) == 25
    assert sum(size for size, _ in reports) > len(json.dumps(RESOURCES)) + len(LINES)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://u:secret@a.example/", "ftp://a.example/: feeds are read over http and https only"),
        ("http://u:secret@", "is a URL without a valid host"),
        ("http:///x", "is a URL without a valid host"),
        ("http://a.example:0/", "is a URL without a valid host and port"),
        ("http://u:sec/secret@a.example/", "a.example/: is not a valid URL; check its spelling"),
        ("http://u:secret@xn--a.example/", "xn--a.example/: is not a valid URL"),
    ],
)
def test_an_invalid_url_is_an_error_without_the_password(
    url: str, message: str, cache: Path
) -> None:
    with pytest.raises(SourceError) as raised:
        fetch_feed(url, cache)
    assert message in str(raised.value)
    assert "secret" not in str(raised.value)
