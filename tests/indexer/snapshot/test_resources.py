"""Resources of feeds: listed, left out, rejected or only found by search, as builds decide."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.__main__ import main
from service.conditions import ResourceFilters
from service.snapshot.snapshot import open_snapshot
from tests.support.artifacts import listed as services
from tests.support.artifacts import overlays
from tests.support.running import Build, Json, endpoint, examples, service, write_lines
from tests.support.sources.x402 import accept, resource, v2

HOST = "https://api.weather-data.example"
ID = "api-weather-data-example"


def at(path: str, *accepts: Json, **fields: Any) -> Json:
    return resource(HOST + path, *accepts, **fields)


def listing(artifacts: Path) -> list[Json]:
    """Return all listed resources."""
    page = open_snapshot(artifacts).resources.list(ResourceFilters(), 1000, 0)
    assert not page.is_cut
    items: list[Json] = json.loads(b"[%b]" % b",".join(page.texts))
    assert len(items) == page.total
    return items


def paths(artifacts: Path) -> list[str]:
    return [each["resource"].removeprefix(HOST) for each in listing(artifacts)]


times = st.sampled_from(["2026-05-01T00:00:00Z", "2026-05-02T00:00:00Z", 1_700_000_000, None])
resources = st.one_of(
    st.builds(
        lambda host, path, method, time: (
            v2({"method": method}) | resource(f"https://{host}/{path}", lastUpdated=time)
        ),
        st.sampled_from(["a.example", "A.example", "b.example", "localhost"]),
        st.sampled_from(["x", "y"]),
        st.sampled_from(["GET", "POST"]),
        times,
    ),
    st.sampled_from(
        [
            resource("http://a.example/x"),
            resource("https://a.example/unpriced", accept(None)),
            resource("https://a.example/negative", accept("-1")),
            resource("https://a.example/dear", accept("9" * 30)),
            resource("not a URL"),
            {"resource": "https://a.example/search"},
            {"resource": "https://b.example/search", "accepts": []},
            {"resource": 7, "accepts": {}},
        ]
    ),
)
records = st.builds(
    lambda host, path, method: service(
        f"{host}-example",
        endpoints=[endpoint() | {"url": f"https://{host}.example/{path}", "method": method}],
    ),
    st.sampled_from("ab"),
    st.sampled_from(["x", "search"]),
    st.sampled_from(["GET", "GET, POST", ""]),
)


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(st.lists(resources, max_size=8), min_size=1, max_size=2),
    st.lists(records, max_size=2),
    st.sets(st.sampled_from(["a-example", "b-example"])),
)
def test_each_resource_has_exactly_one_fate(
    tmp_path_factory: pytest.TempPathFactory,
    feeds: list[list[Json]],
    written: list[Json],
    removed: set[str],
) -> None:
    folder = tmp_path_factory.mktemp("fates")
    artifacts, rejects = folder / "artifacts", folder / "rejects"
    sources = []
    for number, feed in enumerate(feeds):
        numbered = [each | {"n": f"{number} line {line}"} for line, each in enumerate(feed, 1)]
        sources.append(write_lines(folder / f"{number}", numbered or [service("none")]))
    sources.append(write_lines(folder / "written", [*written, service("other")]))
    options = overlays(folder, dict.fromkeys(removed)) if removed else ()
    options = (*options, "--rejects", str(rejects), "--max-rejects", "100%")
    options = (*options, "--no-semantic", "--no-downloads")
    assert main(["build", *sources, "--out", str(artifacts), *options]) == 0

    fates: dict[str, list[str]] = defaultdict(list)
    for finding in map(json.loads, rejects.read_text().splitlines()):
        if finding["fate"] != "noted":
            fates[f"{Path(finding['source']).name} {finding['position']}"].append(finding["fate"])
    assert all(len(each) == 1 for each in fates.values())
    listed = listing(artifacts)
    found = {json.dumps(listed_key(each)) for each in listed}
    found |= {url for each in services(artifacts) for url in endpoint_urls(each)}
    for number, feed in enumerate(feeds):
        for line, each in enumerate(feed, 1):
            if f"{number} line {line}" not in fates:
                url = each["resource"].lower()
                assert url in found if not each.get("accepts") else json.dumps(key(each)) in found
    (*counts,) = json.loads((artifacts / "last.json").read_bytes())["report"]["sources"]
    for each in counts:
        fated = each["published"] + each["rejected"] + sum(each["leftOut"].values())
        assert fated == each["records"]
    assert not {each["ratecard"]["service"] for each in listed} & removed
    assert {each["ratecard"]["service"] for each in listed} <= {
        each["id"] for each in services(artifacts)
    }


def key(record: Json) -> tuple[str, str]:
    """Return the URL and the method of a resource."""
    bazaar = record.get("extensions", {}).get("bazaar", {})
    return record["resource"].lower(), bazaar.get("info", {}).get("input", {}).get("method", "")


def listed_key(record: Json) -> tuple[str, str]:
    return record["resource"].lower(), record["ratecard"]["endpoint"]["method"]


def endpoint_urls(record: Json) -> list[str]:
    return [each["url"].lower() for each in record["endpoints"]]


@pytest.mark.parametrize("key", [ID, "domain:API.weather-data.example"])
def test_an_overlay_that_removes_a_service_removes_its_resources(
    key: str, tmp_path: Path, artifacts: Path, build: Build
) -> None:
    feed = [at("/a"), at("/b"), resource("https://other.example/")]
    assert build(feed) == 0
    assert paths(artifacts) == ["/a", "/b", "https://other.example/"]
    assert build(feed, options=overlays(tmp_path, {key: None})) == 0
    assert paths(artifacts) == ["https://other.example/"]


def test_other_overlays_do_not_change_listings(
    tmp_path: Path, artifacts: Path, build: Build
) -> None:
    feed = [at("/a"), at("/b")]
    assert build(feed) == 0
    before = listing(artifacts)
    patch = {"name": "Renamed", "endpoints": [endpoint("7")], "enriched": True}
    assert build(feed, options=overlays(tmp_path, {ID: patch})) == 0
    assert listing(artifacts) == before


@pytest.mark.parametrize("is_first", [True, False])
def test_a_catalogue_record_keeps_the_resources_that_it_names(
    is_first: bool, artifacts: Path, build: Build
) -> None:
    feed = [
        v2({"method": "GET"}) | at("/a"),
        v2({"method": "POST"}) | at("/a"),
        v2({"method": "GET"}) | at("/b"),
        v2({"method": "POST"}) | at("/b"),
        at("/c"),
        at("/d"),
    ]
    template = v2({"method": "GET"}, routeTemplate="/users/:id")
    feed += [
        template | at("/users/1", extensions=template["extensions"]),
        v2({"method": "GET, POST"}) | at("/e"),
        v2({"method": "PUT"}) | at("/f"),
    ]
    named = [("/a", "GET"), ("/b", "get, POST"), ("/c", "GET")]
    named += [("/users/1", "GET"), ("/e", "POST|PATCH"), ("/f", "")]
    endpoints = [endpoint() | {"url": HOST + path, "method": method} for path, method in named]
    endpoints.append(endpoint() | {"url": "no URL at all"})
    written = [service(ID, endpoints=endpoints)]
    assert build(*((written, feed) if is_first else (feed, written))) == 0
    of_record, of_rest = (
        [path for path, each in zip(paths(artifacts), owners(artifacts), strict=True) if test(each)]
        for test in (ID.__eq__, ID.__ne__)
    )
    assert of_record == ["/a", "/b", "/b", "/c", "/e", "/f", "/users/1"]
    assert of_rest == ["/a", "/d"]
    (rest,) = {*owners(artifacts)} - {ID}
    assert rest.startswith(f"{ID}-")


def owners(artifacts: Path) -> list[str]:
    return [each["ratecard"]["service"] for each in listing(artifacts)]


def test_a_catalogue_record_alone_is_not_listed(artifacts: Path, build: Build) -> None:
    assert build([service("one"), at("/a")], [service(ID, payTo="0xa")]) == 0
    (other,) = owners(artifacts)
    assert other.startswith(f"{ID}-")
    assert other in [each["id"] for each in services(artifacts)]


def test_a_payable_listing_is_kept_beside_a_newer_one_without_accepts(
    artifacts: Path, build: Build
) -> None:
    newer = {"resource": HOST + "/a", "accepts": [], "lastUpdated": "2026-05-09T00:00:00Z"}
    older = at("/a", lastUpdated="2026-05-01T00:00:00Z")
    assert build([older, newer]) == 0
    assert paths(artifacts) == ["/a"]
    assert build([newer, older]) == 0
    assert paths(artifacts) == ["/a"]


def test_no_host_can_take_over_the_listings_of_another(artifacts: Path, build: Build) -> None:
    digest = hashlib.sha256(b"api.example.com").hexdigest()[:8]
    hosts = ("api.example.com", "api-example.com", f"api-example-com.{digest}")
    assert build([resource(f"https://{host}/x") for host in hosts]) == 0
    found = listing(artifacts)
    assert len({each["ratecard"]["service"] for each in found}) == len(found) == len(hosts)
    for each in found:
        text = open_snapshot(artifacts).find(each["ratecard"]["service"])
        assert text is not None
        assert [e["url"] for e in json.loads(text)["endpoints"]] == [each["resource"]]


def test_resources_are_in_the_order_of_services_then_urls_methods_and_tools(
    artifacts: Path, build: Build
) -> None:
    feed = [
        resource("https://zero.example/a"),
        *(at(path, quality={"l30DaysUniquePayers": 5}) for path in ("/b", "/a")),
        v2({"method": "POST"}) | at("/a"),
        v2({"method": "GET"}) | at("/a"),
        resource("https://busy.example/", quality={"l30DaysUniquePayers": 50}),
    ]
    assert build(feed) == 0
    methods = [
        (each["resource"], each["ratecard"]["endpoint"]["method"]) for each in listing(artifacts)
    ]
    assert methods == [
        ("https://busy.example/", ""),
        *((f"{HOST}/a", method) for method in ("", "GET", "POST")),
        (f"{HOST}/b", ""),
        ("https://zero.example/a", ""),
    ]


def test_equal_resources_in_another_order_give_the_same_snapshot(
    artifacts: Path, build: Build
) -> None:
    feed = [at(f"/{number}", lastUpdated=f"2026-05-0{number}T00:00:00Z") for number in range(1, 9)]
    assert build(feed) == 0
    first = open_snapshot(artifacts).id
    assert build(feed[::-1]) == 0
    assert open_snapshot(artifacts).id == first
    listed = listing(artifacts)
    assert build([*feed[::-1], *feed[2:5]], feed[2:5]) == 0
    assert listing(artifacts) == listed
    assert build([*feed[1:], feed[0] | {"x": 1}]) == 0
    assert open_snapshot(artifacts).id != first


def test_endpoints_beyond_the_bounds_of_a_record_are_listed_and_say_so(
    artifacts: Path, build: Build
) -> None:
    feed = [at(f"/{number}", quality={"l30DaysTotalCalls": number}) for number in range(5)]
    assert build(feed, policy={"endpoints_per_service": 2}) == 0
    (record,) = services(artifacts)
    assert endpoint_urls(record) == [f"{HOST}/4", f"{HOST}/3"]
    assert {each["resource"]: each["ratecard"].get("inRecord") for each in listing(artifacts)} == {
        f"{HOST}/{number}": None if number > 2 else False for number in range(5)
    }
    assert open_snapshot(artifacts).resources.beyond(0) == 3
