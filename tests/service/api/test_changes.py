"""`/v1/changes` over HTTP: what changed from one snapshot to another, page by page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.api.changes import ListChanges
from service.api.query_string import parse
from service.errors import InvalidParameter
from service.http.responses import IMMUTABLE
from service.schema.snapshots import ChangeList
from tests.support.clients.mirror import (
    Mirror,
    error,
    parse_page,
    publish,
    published_lines,
    services,
)
from tests.support.running import Json, endpoint, serve, service

UNKNOWN = "0" * 20
_changes = msgspec.json.Decoder(ChangeList)


class History(NamedTuple):
    """A served history of snapshots, of which the first is no longer kept."""

    client: httpx.Client
    ids: list[str]
    artifacts: Path


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    artifacts = tmp_path_factory.mktemp("history") / "artifacts"
    listings = ("aaaaaa", "aaaaaa-a", "-abbaa-", "-bbb-aaaa")
    ids = [publish(artifacts, services(each)) for each in listings]
    with serve(artifacts) as client:
        yield History(client, ids, artifacts)


def test_added_changed_and_removed_services_are_listed_in_order_of_id(history: History) -> None:
    _, old, _, new = history.ids
    response = history.client.get("/v1/changes", params={"since": old})
    body = response.json()
    assert list(body) == ["from", "to", "total", "added", "changed", "removed", "cursor"]
    assert (body["from"], body["to"], body["total"]) == (old, new, 7)
    assert [each["id"] for each in body["added"]] == ["s6", "s8"]
    assert [each["id"] for each in body["changed"]] == ["s1", "s2", "s3"]
    assert body["removed"] == ["s0", "s4"]
    assert body["cursor"] is None
    _changes.decode(response.content)


def test_changed_payees_and_tenfold_prices_are_singled_out(artifacts: Path) -> None:
    def priced(name: str, amount: str, payee: str) -> Json:
        return service(name, endpoints=[endpoint(amount) | {"payTo": payee}])

    old = publish(artifacts, [priced("a", "0.01", "0xa"), priced("b", "0.01", "0xb")])
    publish(artifacts, [priced("a", "0.1", "0xa"), priced("b", "0.02", "0xthief")])
    with serve(artifacts) as client:
        response = client.get("/v1/changes", params={"since": old})
    called = {"url": "https://api.one.example/v1", "method": "GET"}
    assert response.json()["alerts"] == [
        {"service": "a", "prices": [called | {"currency": "USDC", "old": "0.01", "new": "0.1"}]},
        {"service": "b", "payees": [called | {"old": "0xb", "new": "0xthief"}]},
    ]
    _changes.decode(response.content)


def test_services_are_listed_as_they_are_stored(history: History) -> None:
    old, new = history.ids[1], history.ids[3]
    page = parse_page(history.client.get("/v1/changes", params={"since": old}))
    lines = published_lines(history.artifacts, new)
    for text in map(bytes, (*page.added, *page.changed)):
        assert text == lines[json.loads(text)["id"]]
        assert b'"big":1180591620717411303424' in text


@pytest.mark.parametrize("limit", [1, 2, 3, 1000])
def test_between_any_two_kept_snapshots_a_copy_becomes_the_other(
    limit: int, history: History
) -> None:
    kept = history.ids[1:]
    lines = {each: published_lines(history.artifacts, each) for each in kept}
    for old in kept:
        for new in kept:
            mirror = Mirror(old, lines[old])
            mirror.follow(history.client, limit, new)
            assert mirror.text == Mirror(new, lines[new]).text


def test_from_a_snapshot_to_itself_nothing_changes(history: History) -> None:
    removed, *_, served = history.ids
    empty: Json = {"total": 0, "added": [], "changed": [], "removed": [], "cursor": None}
    for each in (removed, served):  # one that is no longer kept equals itself, too
        response = history.client.get("/v1/changes", params={"since": each, "to": each})
        assert response.json() == {"from": each, "to": each} | empty
    assert history.client.get("/v1/changes", params={"since": served}).json()["total"] == 0
    for params in ({"since": UNKNOWN, "to": UNKNOWN}, {"since": served, "to": UNKNOWN}):
        response = history.client.get("/v1/changes", params=params)
        assert error(response) == (404, "snapshot_not_found")


def test_a_snapshot_that_is_not_kept_is_gone_and_the_message_has_a_download(
    history: History,
) -> None:
    removed, kept, _, served = history.ids
    for params, instead in (
        ({"since": removed}, served),
        ({"since": removed, "to": kept}, kept),
        ({"since": kept, "to": removed}, served),
    ):
        response = history.client.get("/v1/changes", params=params)
        assert error(response) == (410, "snapshot_gone")
        assert response.headers["cache-control"] == "no-store"
        message = response.json()["error"]["message"]
        assert message.endswith(f"see /v1/snapshots/{instead}")
        assert history.client.get(message.rpartition(" ")[2]).status_code == 200


def test_an_unknown_snapshot_is_not_found(history: History) -> None:
    response = history.client.get("/v1/changes", params={"since": UNKNOWN})
    assert error(response) == (404, "snapshot_not_found")
    assert response.headers["ratecard-snapshot"] == history.ids[-1]


BAD_PARAMETERS: list[tuple[str, Json]] = [
    ("since", {}),
    ("since", {"since": ""}),
    ("since", {"since": UNKNOWN + "\n"}),
    ("since", {"since": UNKNOWN.replace("0", "A")}),
    ("since", {"since": "../../etc"}),
    ("since", {"since": "٠" * 20}),
    ("since", {"since": "a" * 5000}),
    ("since", {"since": [UNKNOWN, UNKNOWN]}),
    ("to", {"since": UNKNOWN, "to": "current"}),
    ("to", {"since": UNKNOWN, "to": ""}),
    ("limit", {"since": UNKNOWN, "limit": "0"}),
    ("limit", {"since": UNKNOWN, "limit": "-1"}),
    ("cursor", {"since": UNKNOWN, "cursor": ""}),
    ("cursor", {"since": UNKNOWN, "cursor": "1"}),
    ("cursor", {"since": UNKNOWN, "cursor": f"{UNKNOWN}.{UNKNOWN}.-1"}),
    ("cursor", {"since": UNKNOWN, "cursor": f"{UNKNOWN}.{UNKNOWN}.{'9' * 16}"}),
    ("cursor", {"since": UNKNOWN, "cursor": f"{UNKNOWN}.0123456789abcdef.1"}),
    ("cursor", {"since": UNKNOWN, "cursor": f"{'1' * 20}.{UNKNOWN}.1"}),
    ("cursor", {"since": UNKNOWN, "to": "1" * 20, "cursor": f"{UNKNOWN}.{UNKNOWN}.1"}),
    ("cursor", {"since": UNKNOWN, "cursor": [f"{UNKNOWN}.{UNKNOWN}.1"] * 2}),
]


@pytest.mark.parametrize(("name", "params"), BAD_PARAMETERS)
def test_an_invalid_parameter_is_named(name: str, params: Json, history: History) -> None:
    response = history.client.get("/v1/changes", params=params)
    assert error(response) == (400, "invalid_parameter")
    assert response.json()["error"]["parameter"] == name
    assert len(response.content) < 300


@given(
    st.dictionaries(
        st.sampled_from(["since", "to", "limit", "cursor"]),
        st.text() | st.from_regex(r"[0-9a-f.]{19,70}") | st.just(UNKNOWN),
    )
)
def test_any_parameters_are_parsed_or_refused(params: dict[str, str]) -> None:
    query = str(httpx.QueryParams(params)).encode()
    try:
        wanted = parse(ListChanges, query)
    except InvalidParameter as invalid:
        assert str(invalid).startswith(invalid.parameter)  # noqa: PT017  # most are refused
    else:
        assert 1 <= wanted.limit <= 1000
        assert 0 <= wanted.place[1] < 10**15


def test_a_place_past_the_end_is_an_empty_last_page(history: History) -> None:
    _, old, _, new = history.ids
    params = {"since": old, "cursor": f"{old}.{new}.{10**15 - 1}"}
    page = parse_page(history.client.get("/v1/changes", params=params))
    assert (page.total, page.added, page.changed, page.removed) == (7, [], [], [])
    assert page.cursor is None


def test_a_limit_over_1000_means_1000(artifacts: Path) -> None:
    old = publish(artifacts, [])
    publish(artifacts, [service(f"s{number}") for number in range(1101)])
    with serve(artifacts) as client:
        for limit, count in (("10000", 1000), ("", 100)):
            params = {"since": old} | ({"limit": limit} if limit else {})
            page = parse_page(client.get("/v1/changes", params=params))
            assert (len(page.added), page.total) == (count, 1101)
            assert page.cursor is not None


def test_a_page_of_large_services_ends_early(artifacts: Path) -> None:
    old = publish(artifacts, [])
    size = 1_000_000
    publish(artifacts, [service(f"s{n}", description="x" * size) for n in range(20)])
    with serve(artifacts) as client:
        sizes, params = [], {"since": old}
        while True:
            page = parse_page(client.get("/v1/changes", params=params))
            sizes.append(len(page.added))
            if page.cursor is None:
                break
            params["cursor"] = page.cursor
    assert sizes == [8, 8, 4]


def test_changes_between_named_snapshots_are_immutable(history: History) -> None:
    _, old, new, served = history.ids
    url = httpx.URL("/v1/changes", params={"since": old, "to": new, "limit": 2})
    for coding in ("identity", "gzip"):
        first, again = (
            history.client.get(url, headers={"accept-encoding": coding}) for _ in range(2)
        )
        assert first.headers["cache-control"] == again.headers["cache-control"] == IMMUTABLE
        assert first.headers.get_list("ratecard-snapshot") == [new]
        etag = first.headers["etag"]
        assert etag == again.headers["etag"]
        assert not etag.startswith("W/")
        assert served not in etag
        known = {"accept-encoding": coding, "if-none-match": etag}
        unmodified = history.client.get(url, headers=known)
        assert (unmodified.status_code, unmodified.content) == (304, b"")
        assert unmodified.headers["cache-control"] == IMMUTABLE
        assert unmodified.headers.get_list("ratecard-snapshot") == [new]
    head = history.client.head(url)
    assert (head.status_code, head.content) == (200, b"")
    other = history.client.get(url.copy_set_param("limit", "3"))
    assert other.headers["etag"] != etag


def test_changes_up_to_the_served_snapshot_are_cached_as_other_responses(history: History) -> None:
    _, old, _, served = history.ids
    response = history.client.get("/v1/changes", params={"since": old, "limit": 2})
    assert response.headers["cache-control"] == "public, max-age=60"
    assert response.headers.get_list("ratecard-snapshot") == [served]
    cursor = response.json()["cursor"]
    params = {"since": old, "limit": 2, "cursor": cursor}
    assert history.client.get("/v1/changes", params=params).headers["cache-control"] == IMMUTABLE
