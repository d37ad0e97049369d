"""Feeds over HTTP, from servers that behave and that misbehave in every way we have heard of."""

from __future__ import annotations

import gzip
import io
import json
import os
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw

from indexer.errors import SourceError
from indexer.feeds.dedup import FeedItems
from indexer.feeds.gunzip import PIECE, gunzip
from indexer.feeds.page import Page
from indexer.feeds.reader import Feed, FeedProgress, fetch_feed
from indexer.feeds.url import redirected
from indexer.feeds.walk import walk_feed
from indexer.options import Limits
from indexer.sources.records import read_records
from indexer.urls import is_public
from tests.support.misbehaving import Behaviour, Exchange, Server, in_turn, misbehaving, pages_of
from tests.support.running import SHARED, Json, service

BAZAAR = SHARED / "bazaar" / "resources_v1_2025-12.json"
QUICK = Limits(seconds=30, backoff=0.001, attempts=3)


def resource(number: int, **fields: Any) -> Json:
    return {"resource": f"https://a.example/{number}", "accepts": [{"amount": "1"}]} | fields


RESOURCES = [resource(number) for number in range(25)]
SERVICES = [service(f"s{number}") for number in range(25)]
WHOLE = pages_of(RESOURCES)


def failing(status: int, headers: dict[str, str] | None = None) -> Behaviour:
    return lambda exchange: exchange.answer({"error": "x"}, status, headers or {})


def saying(body: Any, headers: dict[str, str] | None = None) -> Behaviour:
    return lambda exchange: exchange.answer(body, headers=headers or {})


def read(feed: Feed) -> list[Any]:
    return [json.loads(record.text) for record in read_records(str(feed.path))]


def fails(behaviour: Behaviour, cache: Path, limits: Limits = QUICK, path: str = "") -> str:
    """What is said of a feed that cannot be read; nothing of it may be kept."""
    with misbehaving(behaviour) as server:
        url = server.origin + path if path else server.url
        with pytest.raises(SourceError) as raised:
            fetch_feed(url, cache, limits)
        assert str(raised.value).startswith(server.origin)
    assert [path for path in cache.rglob("*") if path.is_file()] == []
    return str(raised.value)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "feeds"


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that a fetch would have waited."""
    waited: list[float] = []
    monkeypatch.setattr("indexer.feeds.client.sleep", waited.append)
    return waited


@pytest.mark.parametrize("name", ["items", "resources", "services"])
def test_every_page_is_read_and_becomes_lines(name: str, cache: Path) -> None:
    items = SERVICES if name == "services" else RESOURCES
    with misbehaving(pages_of(items, name=name)) as server:
        feed = fetch_feed(server.url, cache, QUICK)
    assert read(feed) == items
    assert (feed.items, feed.pages, feed.unchanged, feed.note) == (25, 3, False, "")
    assert feed.source == server.url
    assert [record.position for record in read_records(str(feed.path))][-1] == "line 25"


def test_items_are_kept_as_they_came(cache: Path) -> None:
    texts = [
        '{"resource":"https://a.example/1","accepts":[],"n":12345678901234567890123,"x":1.50}',
        '{"resource": "https://a.example/2", "accepts": [], "t": "\\u00e9\\n  \\ud83d\\ude00"}',
        '{"resource":"https://a.example/4","accepts":[],"t":"one half \\ud83d","u":"\\\\ud83d"}',
        '{"resource":"https://a.example/3","accepts":[],"t":"é","t":"twice"}',
    ]
    body = f'{{"items":[{",".join(texts)}],"pagination":{{"total":4,"limit":9}}}}'
    with misbehaving(saying(body.encode())) as server:
        feed = fetch_feed(server.url, cache, QUICK)
        assert feed.path.read_text().splitlines() == texts
    with misbehaving(saying(body.replace('","', '"\n ,\r\n"').encode())) as server:
        feed = fetch_feed(server.url, cache, QUICK)
    assert len(list(read_records(str(feed.path)))) == 4


def test_another_ratecard_is_a_feed(cache: Path, client: httpx.Client, seeds: list[Json]) -> None:
    url = f"{client.base_url.join('/v1/services')}?limit=7"
    feed = fetch_feed(url, cache, QUICK)
    assert sorted(record["name"] for record in read(feed)) == sorted(one["name"] for one in seeds)
    assert (feed.items, feed.pages) == (len(seeds), -(-len(seeds) // 7))
    told: list[FeedProgress] = []
    assert fetch_feed(url, cache, QUICK, told.append).unchanged
    assert told[-1].items == 0  # it was told by the snapshot of the first page


@pytest.mark.skipif(not BAZAAR.exists(), reason="the shared real data is not here")
@pytest.mark.parametrize("most", [100, 5000])
def test_real_resources_are_read_in_pages_and_in_one(most: int, cache: Path) -> None:
    resources = json.loads(BAZAAR.read_bytes())["resources"]
    with misbehaving(pages_of(resources, most=most)) as server:
        feed = fetch_feed(server.url, cache, QUICK)
    assert read(feed) == resources
    assert len(server.asked) == (16 if most == 100 else 1)


def counted(total: Any, most: int = 10) -> Behaviour:
    """Pages whose total is whatever it is; `...` stands for none, a function for one by page."""

    def behave(exchange: Exchange) -> None:
        limit, offset = min(exchange.limit(most), most), exchange.offset
        page: Json = {"items": RESOURCES[offset : offset + limit]}
        if total is not ...:
            page["total"] = total(page["items"]) if callable(total) else total
        exchange.answer(page)

    return behave


def clamping(exchange: Exchange) -> None:
    offset = min(exchange.offset, 20)
    exchange.answer({"items": RESOURCES[offset : offset + 10], "pagination": {"total": 25}})


def clamping_silently(exchange: Exchange) -> None:
    exchange.answer({"items": RESOURCES[min(exchange.offset, 15) :][:10]})


def without_total(behaviour: Callable[[int], list[Json]]) -> Behaviour:
    return lambda exchange: exchange.answer({"resources": behaviour(exchange.offset)})


TOLERATED: dict[str, Behaviour] = {
    "the limit is capped": pages_of(RESOURCES, most=4),
    "the limit is rounded up": lambda exchange: exchange.answer(
        {"items": RESOURCES[exchange.offset // 8 * 8 :][:8], "total": 25, "limit": 8}
    ),
    "a longer limit is declined": lambda exchange: (
        exchange.answer({"error": "limit"}, 400) if exchange.limit(10) > 10 else WHOLE(exchange)
    ),
    "there is no total": counted(...),
    "the total is the length of the page": counted(len),
    "the total is too small": counted(7),
    "the total is too large": counted(26),
    "the total is null": counted(None),
    "the total is text": counted("25"),
    "the total is a word": counted("many"),
    "the total is negative": counted(-1),
    "the total is a list": counted([25]),
    "the last page is repeated past the end": clamping,
    "the last page is repeated without a total": without_total(
        lambda offset: RESOURCES[min(offset // 10 * 10, 20) :][:10]
    ),
    "all is given, whatever the offset": without_total(lambda _: RESOURCES),
    "the end is null": lambda exchange: exchange.answer(
        {"items": RESOURCES[exchange.offset :][:10] or None}
    ),
    "a page is given twice": in_turn(
        WHOLE, saying({"items": RESOURCES[:10], "pagination": {"total": 25}}), WHOLE
    ),
    "a page is given twice and the total never": in_turn(
        counted(...), saying({"items": RESOURCES[:10]}), counted(...)
    ),
    "the last page is given for the first of a second walk": in_turn(
        *[clamping_silently] * 6, saying({"items": RESOURCES[15:]}), clamping_silently
    ),
    "a page is empty once": in_turn(WHOLE, WHOLE, saying({"items": [], "total": 25}), WHOLE),
    "every third answer fails": in_turn(
        *[failing(503), WHOLE, WHOLE, failing(500), WHOLE, failing(429), WHOLE]
    ),
    "a page is cut short": in_turn(
        WHOLE, lambda exchange: exchange.cut(b'{"items":[{"resource"', 900), WHOLE
    ),
    "the connection is lost": in_turn(Exchange.hang_up, WHOLE, Exchange.hang_up, WHOLE),
    "a page is no JSON": in_turn(WHOLE, saying(b'{"items":[{"a":'), WHOLE),
    "a page is a web page": in_turn(WHOLE, saying(b"<html>one moment</html>"), WHOLE),
    "a page is a message": in_turn(WHOLE, saying({"message": "one moment"}), WHOLE),
    "a page is in no encoding": in_turn(WHOLE, saying(b'{"items":["\xff\xff"}'), WHOLE),
    "the gzip data is cut short": in_turn(
        WHOLE,
        saying(gzip.compress(b'{"items":[]}')[:-9], {"Content-Encoding": "gzip"}),
        WHOLE,
    ),
    "gzip is declared where there is none": saying(
        json.dumps({"items": RESOURCES}).encode(), {"Content-Encoding": "gzip"}
    ),
    "pages are compressed": lambda exchange: exchange.compressed(
        json.dumps({"items": RESOURCES[exchange.offset :][:10], "total": 25}).encode()
    ),
}


@pytest.mark.parametrize("case", TOLERATED)
def test_a_feed_is_read_whole_although(case: str, cache: Path) -> None:
    with misbehaving(TOLERATED[case]) as server:
        feed = fetch_feed(server.url, cache, QUICK)
    assert read(feed) == RESOURCES
    assert feed.note == (
        "says that it holds 26 items, and gives 25" if case.endswith("too large") else ""
    )


def test_parameters_of_the_address_are_kept(cache: Path) -> None:
    with misbehaving(WHOLE) as server:
        feed = fetch_feed(f"{server.url}?type=a%20b&limit=7&flag&offset=3&type=c", cache, QUICK)
    assert read(feed) == RESOURCES[3:]
    assert server.asked == [
        "type=a%20b&limit=7&flag&offset=3&type=c",
        *[f"type=a%20b&flag&type=c&limit=7&offset={offset}" for offset in (10, 17, 24)],
    ]


def test_a_page_that_holds_all_costs_one_request(cache: Path) -> None:
    with misbehaving(pages_of(RESOURCES, most=50)) as server:
        assert read(fetch_feed(server.url, cache, QUICK)) == RESOURCES
    assert server.asked == [""]


@pytest.mark.parametrize("body", [{"items": []}, {"services": [], "total": 0}, []])
def test_an_empty_feed_is_an_empty_list(body: Any, cache: Path) -> None:
    with misbehaving(saying(body)) as server:
        assert read(fetch_feed(server.url, cache, QUICK)) == []


LINES = b"".join(json.dumps(record).encode() + b"\n" for record in SERVICES)
PLAIN_FILES = {
    "lines": LINES,
    "lines without the last newline": LINES.rstrip(),
    "lines after blank ones": b"\xef\xbb\xbf\n \n" + LINES,
    "an array": json.dumps(SERVICES, indent=1).encode(),
    "an array after a byte order mark": b"\xef\xbb\xbf" + json.dumps(SERVICES).encode(),
    "an archive": gzip.compress(LINES),
    "an archive in parts": gzip.compress(LINES[:999]) + gzip.compress(LINES[999:]) + bytes(512),
    "a compressed archive": gzip.compress(gzip.compress(LINES)),
}


@pytest.mark.parametrize("form", PLAIN_FILES)
def test_a_plain_file_is_one_request_and_kept_as_it_is(form: str, cache: Path) -> None:
    headers = {"Content-Encoding": "gzip"} if form == "a compressed archive" else {}
    with misbehaving(saying(PLAIN_FILES[form], headers)) as server:
        feed = fetch_feed(server.url, cache, QUICK)
    assert read(feed) == SERVICES
    assert (len(server.asked), feed.pages, feed.items) == (1, 1, None)


def test_a_lone_record_is_a_plain_file(cache: Path) -> None:
    for record in (SERVICES[0] | {"services": []}, RESOURCES[0] | {"items": []}):
        with misbehaving(saying(record)) as server:
            assert read(fetch_feed(server.url, cache, QUICK)) == [record]


def test_of_services_with_one_id_the_later_is_kept_and_others_once(cache: Path) -> None:
    later, nameless = service("s0", name="later"), service(None)
    with misbehaving(
        saying({"services": [*SERVICES, nameless, later, nameless], "total": 28})
    ) as server:
        feed = fetch_feed(server.url, cache, QUICK)
    assert sorted(map(str, read(feed))) == sorted(map(str, [later, *SERVICES[1:], nameless]))
    assert feed.note == "says that it holds 28 items, and gives 26"


def changing(*feeds: list[Json], marked: bool = False) -> Behaviour:
    """Give the first page of one feed, what follows of the next, and so on from each start."""
    left = [(feed, f"m{number}") for number, feed in enumerate(feeds)]

    def behave(exchange: Exchange) -> None:
        items, mark = left.pop(0) if len(left) > 1 else left[0]
        page = items[exchange.offset : exchange.offset + 10]
        headers = {"Ratecard-Snapshot": mark} if marked else {"ETag": '"one"'}
        exchange.answer({"items": page, "total": 25 if marked else len(items)}, headers=headers)

    return behave


def test_a_feed_that_shrinks_while_it_is_read_is_read_again(cache: Path) -> None:
    shrunk = RESOURCES[1:]
    with misbehaving(changing(RESOURCES, RESOURCES, shrunk)) as server:
        feed = fetch_feed(server.url, cache, QUICK)
    assert (read(feed), feed.note) == (
        shrunk,
        "",
    )  # the one that slipped through, and not the first


def test_a_feed_that_grows_at_its_end_while_it_is_read_is_read_once(cache: Path) -> None:
    with misbehaving(changing(RESOURCES[:23], RESOURCES[:23], RESOURCES)) as server:
        feed = fetch_feed(server.url, cache, QUICK)
    assert (read(feed), len(server.asked)) == (RESOURCES, 4)


def test_a_feed_that_names_another_snapshot_on_the_way_is_read_again(cache: Path) -> None:
    others = [resource(number) for number in range(100, 125)]
    with misbehaving(changing(RESOURCES, RESOURCES, others, marked=True)) as server:
        feed = fetch_feed(server.url, cache, QUICK)
    assert (read(feed), feed.note) == (others, "")


def test_of_a_feed_that_never_stops_changing_all_that_was_met_is_taken(cache: Path) -> None:
    feeds = [RESOURCES[number % 2 :] for number in range(99)]
    with misbehaving(changing(*feeds)) as server:
        feed = fetch_feed(server.url, cache, QUICK)
        assert sorted(map(str, read(feed))) == sorted(map(str, RESOURCES))
        assert "kept changing while it was read" in feed.note
        assert len(server.asked) < 16
        fetch_feed(server.url, cache, QUICK)
    assert not any("If-None-Match" in request.headers for request in server.requests)


def test_what_walks_disagree_on_is_taken_and_vouched_for_by_no_first_page(cache: Path) -> None:
    marks = {"ETag": '"one"', "Ratecard-Snapshot": "a"}
    overlapping, others, end = RESOURCES[:9], RESOURCES[8:12], RESOURCES[1:9]
    pages = [overlapping, others, [], end, [], end, []]
    answers = [saying({"items": page}, marks) for page in pages]
    with misbehaving(in_turn(*answers, saying({"items": RESOURCES[:12]}, marks))) as server:
        feed = fetch_feed(server.url, cache, QUICK)
        assert (read(feed), len(server.asked)) == (RESOURCES[:12], len(pages))
        assert "kept changing while it was read" in feed.note
        fetch_feed(server.url, cache, QUICK)
    assert len(server.asked) > len(pages) + 1
    assert not any("If-None-Match" in request.headers for request in server.requests)


def test_a_feed_without_end_ends_by_its_pages_or_its_bytes(cache: Path) -> None:
    def endless(exchange: Exchange) -> None:
        start = exchange.offset
        exchange.answer({"items": [resource(number) for number in range(start, start + 10)]})

    by_pages = msgspec.structs.replace(QUICK, pages=20)
    assert "has more than 20 pages" in fails(endless, cache, by_pages)
    by_bytes = msgspec.structs.replace(QUICK, bytes=5000)
    assert "more than the 5,000 bytes" in fails(endless, cache, by_bytes)


HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
DRIPS = {
    "the headers": (b"HTTP/1.1 200 OK\r\nX: ", b"x"),
    "the body": (HEAD + b"\r\n", b"1\r\n[\r\n"),
    "blanks before nothing": (HEAD + b"\r\n", b"1\r\n \r\n"),
    "an archive that holds nothing": (
        HEAD + b"\r\n14\r\n" + gzip.compress(b"") + b"\r\n",
        b"1\r\n\0\r\n",
    ),
    "nothing at all": (b"", b""),
}


@pytest.mark.parametrize("what", DRIPS)
def test_a_server_that_drips_meets_the_deadline(what: str, cache: Path) -> None:
    limits = Limits(seconds=0.2, backoff=0.001)
    said = fails(lambda exchange: exchange.drip(*DRIPS[what]), cache, limits)
    assert "was not read to its end in the 0.2 seconds that a feed may take" in said


def test_a_silent_server_is_asked_again(cache: Path) -> None:
    limits = Limits(silence=0.2, backoff=0.001, attempts=20)
    with misbehaving(in_turn(lambda exchange: exchange.drip(b"", b""), WHOLE)) as server:
        assert read(fetch_feed(server.url, cache, limits)) == RESOURCES


def bomb(size: int) -> bytes:
    compressor = zlib.compressobj(9, wbits=31)
    return b"".join([*(compressor.compress(bytes(2**20)) for _ in range(size)), compressor.flush()])


@pytest.mark.parametrize("layers", [1, 2])
def test_a_gzip_bomb_is_opened_as_far_as_is_allowed(layers: int, cache: Path) -> None:
    limits = msgspec.structs.replace(QUICK, bytes=2**20)
    body = bomb(64) if layers == 1 else gzip.compress(bomb(64))
    headers = {} if layers == 1 else {"Content-Encoding": "gzip"}
    assert "more than the 1,048,576 bytes that it may" in fails(
        saying(body, headers), cache, limits
    )


FATAL: dict[str, tuple[Behaviour, str]] = {
    "fails for ever": (failing(500), "answers 500 Internal Server Error, at attempt 3 still"),
    "fails from the second page on": (in_turn(WHOLE, failing(502)), "answers 502 Bad Gateway"),
    "does not know the address": (failing(404), "answers 404 Not Found; check the address"),
    "wants a user": (failing(401), "answers 401 Unauthorized; check what"),
    "has a status of its own": (failing(299), "answers 299; check what the server asks for"),
    "says unchanged without being asked": (failing(304), "answers 304 Not Modified"),
    "gives a web page": (saying(b"\n<!doctype html>"), "is a web page, no feed; check the address"),
    "gives nothing": (saying(b""), "is empty; an empty feed is written as []"),
    "gives a message": (saying({"message": "hello"}), "without a list of services, resources"),
    "gives a word": (saying("hello"), "is no list of services or resources"),
    "gives text": (saying(b"hello"), "is no JSON, or cut short"),
    "gives no list": (saying({"items": {"a": 1}}), "is no list of services or resources"),
    "nests without end": (saying(b"[" * 4000), "nested too deeply"),
    "ends within a line": (saying(LINES[:-9]), "ends within a line, at attempt 3 still"),
    "always hangs up": (Exchange.hang_up, "cannot be read: Server disconnected"),
    "always cuts short": (lambda exchange: exchange.cut(b"[]", 9), "cannot be read: peer closed"),
    "is no HTTP": (lambda exchange: exchange.drip(b"SSH-2.0\r\n\r\n", b""), "cannot be read"),
    "compresses otherwise": (
        saying(b"x", {"Content-Encoding": "br"}),
        "answers in the encoding br, where gzip was asked for",
    ),
    "ignores the offset": (
        saying({"items": RESOURCES[:10], "total": 25}),
        "says that it holds 25 items, and gives 10 at whatever offset",
    ),
    "gives nothing of much": (saying({"items": [], "total": 25}), "holds 25 items, and gives 0"),
    "collapses on the way": (
        in_turn(*[WHOLE] * 2, saying({"items": [], "total": 25})),
        "holds 25 items, and gives 10",
    ),
    "gives a page of too many bytes": (
        in_turn(WHOLE, saying({"items": ["x" * 9999], "total": 25})),
        "gives more than the 5,000 bytes that it may",
    ),
    "gives an array of too many bytes": (
        saying([resource(0, x="x" * 9999)]),
        "is one JSON text of 10,0",
    ),
}


@pytest.mark.parametrize("case", FATAL)
def test_nothing_is_taken_of_a_feed_that(case: str, cache: Path) -> None:
    behaviour, message = FATAL[case]
    limits = msgspec.structs.replace(QUICK, page_bytes=5000, silence=1)
    assert message in fails(behaviour, cache, limits)


def test_a_feed_that_fails_leaves_what_was_kept(cache: Path) -> None:
    with misbehaving(in_turn(*[WHOLE] * 4, WHOLE, WHOLE, failing(500))) as server:
        feed = fetch_feed(server.url, cache, QUICK)
        with pytest.raises(SourceError):
            fetch_feed(server.url, cache, QUICK)
        server.behaviour = WHOLE
        assert read(feed) == RESOURCES
        assert fetch_feed(server.url, cache, QUICK).unchanged
    assert [path.name for path in feed.path.parent.iterdir()] != []


def test_waits_grow_and_are_at_least_as_long_as_asked_for(cache: Path, naps: list[float]) -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=300), usegmt=True)
    behaviours = [
        *[failing(500)] * 2,
        failing(503, {"Retry-After": "7"}),
        failing(429, {"Retry-After": soon}),
        failing(429, {"Retry-After": "when it suits"}),
        failing(429, {"Retry-After": format_datetime(datetime(1999, 1, 1, tzinfo=UTC))}),
    ]
    with misbehaving(in_turn(*behaviours, saying([]))) as server:
        fetch_feed(server.url, cache, Limits(attempts=9, backoff=0.5))
    assert 0.25 <= naps[0] <= 0.75
    assert 0.5 <= naps[1] <= 1.5
    assert naps[2] == 7
    assert 200 < naps[3] <= 300
    assert 4 <= naps[4] <= 12
    assert 8 <= naps[5] <= 24


@pytest.mark.parametrize(
    "asked",
    ["3600", "9" * 400, format_datetime(datetime.now(UTC) + timedelta(days=1), usegmt=True)],
    ids=["an hour", "for ever", "a day by its date"],  # the processes that test must agree on names
)
def test_a_wait_beyond_the_deadline_fails_at_once(
    asked: str, cache: Path, naps: list[float]
) -> None:
    said = fails(failing(503, {"Retry-After": asked}), cache)
    assert "answers 503 Service Unavailable; to wait" in said
    assert "longer than what is left of the 30 that a feed may take" in said
    assert naps == []


def to(location: str, status: int = 302) -> Behaviour:
    return lambda exchange: exchange.answer(b"", status, {"Location": location})


def test_redirects_are_followed_for_every_page(cache: Path) -> None:
    def behave(exchange: Exchange) -> None:
        if exchange.path.startswith("/discovery"):
            to("/v2" + exchange.path, 308)(exchange)
        else:
            WHOLE(exchange)

    with misbehaving(behave) as server:
        assert read(fetch_feed(server.url, cache, QUICK)) == RESOURCES


def passing_on(server: Server) -> Behaviour:
    return lambda exchange: to(server.origin + exchange.path)(exchange)


REDIRECTS = {
    "in a circle": (in_turn(to("/b"), to("/discovery/resources")), "redirects in a circle, back"),
    "to itself": (to("?"), "redirects"),
    "without end": (lambda exchange: to(exchange.path + "x")(exchange), "more than 5 times"),
    "to nowhere": (to(""), "redirects without saying where to"),
    "to a file": (to("file:///etc/passwd"), "'file:///etc/passwd', which cannot be asked"),
    "to a broken address": (to("http://[bad]/"), "which cannot be asked"),
    "to a port that cannot be": (to("http://a.example:99999/"), "which cannot be asked"),
    "to a password": (to("ftp://user:secret@a.example/"), "'ftp://a.example/', which cannot"),
    "to this machine": (to("http://127.0.0.1:1/"), "127.0.0.1, which is no public address"),
    "to this machine by name": (to("http://localhost:1/"), "localhost at "),
    "to this machine by number": (to("http://2130706433/"), "2130706433 at 127.0.0.1, which"),
    "to this machine in IPv6": (to("http://[::ffff:127.0.0.1]/"), "which is no public address"),
    "to a private network": (to("https://10.0.0.1/"), "10.0.0.1, which is no public address"),
    "to metadata of a cloud": (to("http://169.254.169.254/"), "which is no public address"),
}


@pytest.mark.parametrize("where", REDIRECTS)
def test_redirects_that_nobody_should_follow_are_not(where: str, cache: Path) -> None:
    behaviour, message = REDIRECTS[where]
    said = fails(behaviour, cache)
    assert message in said
    assert "secret" not in said


def test_a_redirect_never_leaves_https() -> None:
    secure = httpx.URL("https://a.example/x")
    assert str(redirected(secure, "//user:pass@b.example/y#z")) == "https://b.example/y"
    with pytest.raises(SourceError, match=r"from https to .*, which is not secure"):
        redirected(secure, "http://b.example/")


def test_a_password_goes_to_its_own_server_alone_and_is_shown_nowhere(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.feeds.transport.is_public", lambda _: True)
    with misbehaving(WHOLE) as other, misbehaving(passing_on(other)) as server:
        url = server.url.replace("//", "//us%40er:secret@")
        feed = fetch_feed(url, cache, QUICK)
        server.behaviour = failing(500)
        with pytest.raises(SourceError) as raised:
            fetch_feed(url, cache, QUICK)
    assert {one.headers["Authorization"] for one in server.requests} == {"Basic dXNAZXI6c2VjcmV0"}
    assert {one.headers["Authorization"] for one in other.requests} == {None}
    assert feed.source == server.url
    kept = [path.read_text() + str(path) for path in cache.rglob("*") if path.is_file()]
    assert not any("secret" in text or "er:" in text for text in [str(raised.value), *kept])


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://u:secret@a.example/", "ftp://a.example/: feeds are read over http and https alone"),
        ("http://u:secret@", "is no URL with a host"),
        ("http:///x", "is no URL with a host"),
        ("http://a.example:0/", "is no URL with a host and a port"),
        ("http://u:sec/secret@a.example/", "a.example/: is no URL; check how it is written"),
        (f"http://{'a' * 70}.example/", "the host cannot be looked up"),
    ],
)
def test_an_address_that_is_none_is_said_to_be_none(url: str, message: str, cache: Path) -> None:
    with pytest.raises(SourceError) as raised:
        fetch_feed(url, cache, QUICK)
    assert message in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "64:ff9b::808:808"])
def test_public_addresses_are_public(address: str) -> None:
    assert is_public(ip_address(address))


OTHERS = """
    0.0.0.0 10.1.1.1 100.64.0.1 127.0.0.1 169.254.1.1 172.16.0.1 192.168.1.1 224.0.1.1 240.0.0.1
    255.255.255.255 :: ::1 fc00::1 fe80::1 fec0::1 ff0e::1 ::ffff:10.0.0.1 ::127.0.0.1
    64:ff9b::7f00:1 64:ff9b:1::1 2002:7f00:1:: 2002:808:808:: 2001:db8::1
"""


@pytest.mark.parametrize("address", OTHERS.split())
def test_other_addresses_are_not(address: str) -> None:
    assert not is_public(ip_address(address))


def validated(items: list[Json], tag: str = '"one"', **headers: str) -> Behaviour:
    """Pages with validators, and 304 where they are sent back."""

    def behave(exchange: Exchange) -> None:
        if exchange.headers["If-None-Match"] == tag:
            exchange.answer(b"", 304, {"ETag": tag} | headers)
        else:
            pages_of(items, headers={"ETag": tag} | headers)(exchange)

    return behave


def test_an_unchanged_feed_costs_one_request(cache: Path) -> None:
    with misbehaving(validated(RESOURCES)) as server:
        first = fetch_feed(server.url, cache, QUICK)
        before = len(server.asked)
        again = fetch_feed(server.url, cache, QUICK)
    assert len(server.asked) == before + 1
    assert again == msgspec.structs.replace(first, unchanged=True)
    assert read(again) == RESOURCES


def test_the_time_of_the_last_change_is_sent_back_too(cache: Path) -> None:
    headers = {"Last-Modified": "Thu, 07 May 2026 10:16:51 GMT"}
    with misbehaving(saying(LINES, headers)) as server:
        fetch_feed(server.url, cache, QUICK)
        server.behaviour = failing(304)
        assert fetch_feed(server.url, cache, QUICK).unchanged
    assert server.requests[1].headers["If-Modified-Since"] == headers["Last-Modified"]


def test_a_changed_feed_is_read_anew(cache: Path) -> None:
    with misbehaving(validated(RESOURCES)) as server:
        first = fetch_feed(server.url, cache, QUICK)
        server.behaviour = validated(RESOURCES[:-1], '"two"')
        second = fetch_feed(server.url, cache, QUICK)
        third = fetch_feed(server.url, cache, QUICK)
    assert (first.unchanged, second.unchanged, third.unchanged) == (False, False, True)
    assert read(third) == RESOURCES[:-1]


def test_without_validators_a_feed_is_unchanged_when_it_holds_the_same(cache: Path) -> None:
    with misbehaving(WHOLE) as server:
        assert not fetch_feed(server.url, cache, QUICK).unchanged
        assert fetch_feed(server.url, cache, QUICK).unchanged


def test_a_first_page_of_another_snapshot_vouches_for_no_other(cache: Path) -> None:
    with misbehaving(validated(RESOURCES, **{"Ratecard-Snapshot": "a"})) as server:
        fetch_feed(server.url, cache, QUICK)
        others = RESOURCES[:10] + RESOURCES[11:]
        server.behaviour = validated(others, **{"Ratecard-Snapshot": "b"})
        feed = fetch_feed(server.url, cache, QUICK)
    assert (read(feed), feed.unchanged) == (others, False)


def test_a_page_of_the_same_snapshot_vouches_for_all(cache: Path) -> None:
    headers = {"Ratecard-Snapshot": "a"}
    with misbehaving(pages_of(SERVICES, name="services", headers=headers)) as server:
        first = fetch_feed(server.url, cache, QUICK)
        before = len(server.asked)
        again = fetch_feed(server.url, cache, QUICK)
    assert again == msgspec.structs.replace(first, unchanged=True)
    assert len(server.asked) == before + 1


@pytest.mark.parametrize("shift", [25 * 3600, -3600])
def test_a_feed_of_pages_is_walked_once_a_day_at_least(
    shift: float, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with misbehaving(validated(RESOURCES)) as server:
        fetch_feed(server.url, cache, QUICK)
        now = datetime.now(UTC).timestamp()
        monkeypatch.setattr("indexer.feeds.reader.time", lambda: now + shift)
        before = len(server.asked)
        assert fetch_feed(server.url, cache, QUICK).unchanged
        assert len(server.asked) - before > 2


def entry_of(cache: Path) -> Path:
    [entry] = cache.glob("*/entry.json")
    return entry


def text_of(entry: Path) -> Path:
    [text] = [path for path in entry.parent.iterdir() if path != entry]
    return text


DAMAGES: dict[str, Callable[[Path], object]] = {
    "an entry that is cut short": lambda entry: entry.write_text(entry.read_text()[:40]),
    "an entry of nothing": lambda entry: entry.write_text(""),
    "an entry of another format": lambda entry: entry.write_text(
        entry.read_text().replace('"format":1', '"format":2')
    ),
    "an entry that names a file elsewhere": lambda entry: entry.write_text('{"sha256":"../../x"}'),
    "an entry with a header in its header": lambda entry: entry.write_text(
        entry.read_text().replace("one", "\\r\\nX: y")
    ),
    "a text that is another": lambda entry: text_of(entry).write_bytes(LINES),
    "no text": lambda entry: text_of(entry).unlink(),
    "no entry": Path.unlink,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cache_is_as_good_as_none(damage: str, cache: Path) -> None:
    with misbehaving(validated(RESOURCES)) as server:
        fetch_feed(server.url, cache, QUICK)
        DAMAGES[damage](entry_of(cache))
        feed = fetch_feed(server.url, cache, QUICK)
    assert (read(feed), feed.unchanged) == (RESOURCES, False)


def test_remains_of_a_crash_go_with_the_next_walk(cache: Path) -> None:
    with misbehaving(WHOLE) as server:
        folder = fetch_feed(server.url, cache, QUICK).path.parent
        (folder / "tmpx").mkdir()
        (folder / "tmpx" / "body").write_text("half")
        (folder / ("0" * 64)).write_text("of a walk that was not kept")
        feed = fetch_feed(server.url, cache, QUICK)
    assert {path.name for path in folder.iterdir()} == {"entry.json", feed.sha256}


def test_what_is_kept_of_a_feed_goes_when_it_was_not_asked_for_in_30_days(cache: Path) -> None:
    def unused(folder: Path, days: int) -> Path:
        moment = datetime.now(UTC).timestamp() - days * 24 * 3600
        os.utime(folder, (moment, moment))
        return folder

    with misbehaving(validated(RESOURCES)) as server:
        urls = [f"{server.url}?q={number}" for number in range(3)]
        feeds = [fetch_feed(url, cache, QUICK) for url in urls]
        own, old, recent = (feed.path.parent for feed in feeds)
        (cache / "of somebody else").mkdir()
        foreign = unused(cache / "of somebody else", 99)
        unused(own, 99)
        unused(old, 31)
        unused(recent, 29)
        again = fetch_feed(urls[0], cache, QUICK)
    assert (read(again), again.unchanged) == (RESOURCES, True)
    assert set(cache.iterdir()) == {own, recent, foreign}
    assert datetime.now(UTC).timestamp() - own.stat().st_mtime < 3600


def test_a_crash_before_the_entry_leaves_the_old_feed(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(_: object) -> bytes:
        raise KeyboardInterrupt

    with misbehaving(validated(RESOURCES)) as server:
        feed = fetch_feed(server.url, cache, QUICK)
        server.behaviour = validated(RESOURCES[:5], '"two"')
        with monkeypatch.context() as patch:
            patch.setattr("indexer.feeds.cache.msgspec.json.encode", crash)
            with pytest.raises(KeyboardInterrupt):
                fetch_feed(server.url, cache, QUICK)
        server.behaviour = validated(RESOURCES)
        again = fetch_feed(server.url, cache, QUICK)
    assert again == msgspec.structs.replace(feed, unchanged=True)
    assert read(again) == RESOURCES


def test_users_and_addresses_have_a_cache_of_their_own(cache: Path) -> None:
    with misbehaving(WHOLE) as server:
        urls = [server.url, server.url + "?q=1", server.url.replace("//", "//user:pass@")]
        paths = {fetch_feed(url, cache, QUICK).path.parent for url in urls}
    assert len(paths) == 3


def test_progress_is_told(cache: Path) -> None:
    told: list[FeedProgress] = []
    with misbehaving(WHOLE) as server:
        fetch_feed(server.url, cache, QUICK, lambda now: told.append(msgspec.structs.replace(now)))
    assert told[-1].total == 25
    assert told[-1].bytes > len(json.dumps(RESOURCES))
    assert [now.bytes for now in told] == sorted(now.bytes for now in told)


@given(st.binary(max_size=200), st.lists(st.integers(1, 30)), st.integers(0, 3))
def test_gzip_data_is_opened_however_it_is_cut(data: bytes, cuts: list[int], layers: int) -> None:
    packed = data
    for _ in range(layers):
        packed = gzip.compress(packed[:99]) + gzip.compress(packed[99:])
    pieces, start = [], 0
    for cut in cuts:
        pieces.append(packed[start : start + cut])
        start += cut
    opened: Iterator[bytes] = iter([*pieces, packed[start:]])
    for _ in range(layers):
        opened = gunzip(opened)
    assert b"".join(opened) == data


def test_far_expanding_data_comes_in_small_pieces() -> None:
    lengths = [len(piece) for piece in gunzip([bomb(8)])]
    assert (max(lengths), sum(lengths)) == (PIECE, 8 * 2**20)


class Model:
    """A server of so many items, which gives at most so many of them at once."""

    def __init__(self, count: int, most: int, total: str, end: str, slip: int) -> None:
        self.items = [Raw(b'{"n":%d}' % number) for number in range(count)]
        self.most, self.total, self.end, self.slip = most, total, end, slip
        self.pages: list[Page] = []

    def ask(self, offset: int) -> Page:
        """A page; the one before once more where it slips."""
        if len(self.pages) == self.slip > 0:
            self.pages.append(self.pages[-1])
        else:
            self.pages.append(self.page(offset))
        return self.pages[-1]

    def page(self, offset: int) -> Page:
        if self.end == "clamped":
            offset = max(0, min(offset, len(self.items) - self.most))
        if self.end == "repeated" and offset >= len(self.items):
            offset = max(0, len(self.items) - 1) // self.most * self.most
        items = self.items[offset : offset + self.most]
        totals = {"right": len(self.items), "small": len(self.items) // 3, "page": len(items)}
        return Page(items, totals.get(self.total), None, are_services=False)


@given(
    count=st.integers(0, 40),
    most=st.integers(1, 12),
    start=st.integers(0, 5),
    total=st.sampled_from(["right", "none", "page", "small"]),
    end=st.sampled_from(["empty", "repeated", "clamped"]),
    slip=st.integers(0, 12),
)
@example(count=3, most=2, start=0, total="none", end="clamped", slip=5)  # as a walk starts again
def test_a_walk_meets_every_item_once(
    count: int, most: int, start: int, total: str, end: str, slip: int
) -> None:
    server = Model(count, most, total, end, slip if total in {"right", "none"} else 0)
    spool = io.BytesIO()
    walk = walk_feed(server.ask, FeedItems(spool), start)
    met = spool.getvalue().splitlines()
    assert len(met) == len(set(met)) == len(walk.seen)
    expected = {bytes(item) for item in server.items[start:]}
    assert expected == set(met) if end == "empty" else expected <= set(met)
    assert len(server.pages) <= 3 * (count // most + 5)
