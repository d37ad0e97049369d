"""The pages over HTTP: policy, caching, errors, and texts that need no browser."""

from __future__ import annotations

import html
import re
from pathlib import Path

import httpx
import pytest

from service.http.compression import MIN_SIZE
from service.web.static_files import FILES, VERSION
from tests.support.running import Build, payment, serve, service

PAGES = (
    "/",
    "/?q=weather",
    "/endpoints?q=weather",
    "/services/folioscope-example",
    "/ecosystem",
    "/services/nobody",
)
A_PERSON = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.mark.parametrize("path", PAGES)
def test_documents_have_a_strict_policy_and_nothing_inline(path: str, client: httpx.Client) -> None:
    response = client.get(path, headers=A_PERSON)
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    assert not re.search(
        r"<style|<script(?! (type=\"module\" )?src=)|\sstyle=|\son\w+=", response.text
    )
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//(?!www\.x402\.org/)", response.text)


def test_files_of_this_version_are_cached_for_ever_and_others_are_not(client: httpx.Client) -> None:
    named = set(re.findall(r"/assets/[\w./]+", client.get("/").text))
    assert named
    for path in {*named, *(f"/assets/{VERSION}/{name}" for name in FILES)}:
        response = client.get(path).raise_for_status()
        assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert ("content-encoding" in response.headers) == (len(response.content) >= MIN_SIZE)
        assert "accept-encoding" in response.headers["vary"].lower()
        other = client.get(path.replace(VERSION, "before")).raise_for_status()
        assert other.headers["cache-control"] == "no-cache"
        assert other.content == response.content
    assert client.get(f"/assets/{VERSION}/../page.py").status_code == 404
    assert client.get("/assets/page.css").status_code == 404


@pytest.mark.parametrize(
    ("path", "status", "heading", "text"),
    [
        ("/services/nobody", 404, "Page not found", "no service has the id"),
        ("/nowhere", 404, "Page not found", "No page has this address"),
        ("/?sort=nope", 400, "Invalid address", "sort must be one of: name, popularity"),
        ("/?offset=-1", 400, "Invalid address", "offset must be an integer"),
        ("/endpoints?sort=name", 400, "Invalid address", "sort must be one of: popularity"),
        ("/endpoints?maxPrice=x", 400, "Invalid address", "maxPrice must be a decimal"),
        ("/ecosystem?timeframe=x", 400, "Invalid address", "timeframe must be an integer"),
    ],
)
def test_errors_are_json_to_programs_and_pages_to_browsers(
    path: str, status: int, heading: str, text: str, client: httpx.Client
) -> None:
    program, person = client.get(path), client.get(path, headers=A_PERSON)
    assert program.status_code == person.status_code == status
    assert program.json()["error"]["message"]
    assert person.headers["content-type"] == "text/html; charset=utf-8"
    assert f"<h1>{heading}</h1>" in person.text
    assert text in person.text
    assert '<a href="/">See all services</a>' in person.text
    assert 'role="search"' in person.text
    assert 'href="/?category=Weather"' in person.text


def test_the_api_answers_browsers_in_json(client: httpx.Client) -> None:
    for path in ("/v1/services?limit=0", "/v1/services/nobody", "/v1/services"):
        assert client.get(path, headers=A_PERSON).headers["content-type"] == "application/json"
    for path in ("/v1/services", "/healthz", "/metrics", "/llms.txt"):
        refused = client.post(path, headers=A_PERSON)
        assert (refused.status_code, refused.headers["content-type"]) == (405, "application/json")


def test_a_page_is_sent_again_only_when_it_changed(client: httpx.Client) -> None:
    response = client.get("/?q=weather")
    tag = {"if-none-match": response.headers["etag"]}
    assert client.get("/?q=weather", headers=tag).status_code == 304
    assert client.get("/?q=weather", headers={"if-none-match": '"other"'}).status_code == 200


@pytest.mark.parametrize("filters", ["/?category=", "/endpoints?service=", "/endpoints?payTo="])
def test_a_page_of_many_filters_is_bounded(filters: str, client: httpx.Client) -> None:
    path, _, name = filters.partition("?")
    values = [f"{name}{number}" for number in range(101)]
    response = client.get(f"{path}?{'&'.join(values[:100])}")
    assert response.status_code == 200
    assert len(response.content) < 100_000
    assert response.text.count("Remove the filter") == 20
    assert client.get(f"{path}?{'&'.join(values)}").status_code == 400
    assert client.get(f"{path}?{'&'.join(values[:1] * 3000)}").status_code == 400


@pytest.mark.parametrize("path", ["/?category=%20wEATHER", "/endpoints?category=%20wEATHER"])
def test_a_filter_in_any_spelling_is_selected(path: str, client: httpx.Client) -> None:
    page = client.get(path).raise_for_status().text
    assert '<li class="card">' in page
    assert 'name="category" value="Weather" checked' in page
    assert page.count(" checked") == 2  # and any price


def test_a_page_past_the_end_is_empty_and_leads_back_to_the_last_one(client: httpx.Client) -> None:
    service = "/services/data-porthalden-example?q=council"
    for path, name in (
        ("/?q=weather", "offset"),
        ("/endpoints?q=data", "offset"),
        (service, "offset"),
        ("/ecosystem?timeframe=7", "page"),
    ):
        page = client.get(f"{path}&{name}={2**63 - 1}").raise_for_status().text
        assert not re.search('<li class="card">|class="endpoint"|class="amount"', page)
        (address,) = re.findall('rel="prev" href="(.*?)"', page)
        last = client.get(html.unescape(address)).raise_for_status().text
        assert re.search('<li class="card">|class="endpoint"|class="amount"', last)
        assert 'rel="next"' not in last


@pytest.mark.parametrize("sort", ["relevance", "popularity", "price", "name"])
@pytest.mark.parametrize("query", ["weather", "translate speech", "pdf"])
def test_the_endpoint_below_a_service_is_the_one_that_its_score_is_of(
    query: str, sort: str, client: httpx.Client
) -> None:
    parameters = {"q": query, "sort": sort}
    explained = client.get("/v1/search/services", params=parameters | {"explain": "true"}).json()
    page = client.get("/", params=parameters).raise_for_status().text
    cards = page.split('<li class="card">')[1:]
    shown = [re.findall('class="best".*?class="path">(.*?)<', card) for card in cards]
    urls = [each.get("endpoint") for each in explained["explanations"]]
    assert any(urls)
    assert [len(paths) for paths in shown] == [url is not None for url in urls]
    assert all(
        url.endswith(html.unescape(path))
        for url, paths in zip(urls, shown, strict=True)
        for path in paths
    )


def test_the_pages_can_be_switched_off(sample: Path) -> None:
    with serve(sample, "--no-page") as client:
        for path in (*PAGES[:5], f"/assets/{VERSION}/page.css"):
            response = client.get(path, headers=A_PERSON)
            assert response.status_code == 404
            assert response.json()["error"]["code"] == "path_not_found"
        assert client.get("/v1/services").json()["total"] == 184


def test_without_a_snapshot_the_page_says_how_to_publish_one(artifacts: Path) -> None:
    with serve(artifacts) as client:
        response = client.get("/", headers=A_PERSON)
        assert (response.status_code, response.headers["retry-after"]) == (503, "5")
        assert "<h1>Temporarily unavailable</h1>" in response.text
        assert "ratecard build services.jsonl" in response.text
        assert client.get(f"/assets/{VERSION}/page.css").status_code == 200


def test_an_empty_catalogue_says_how_to_fill_it(
    artifacts: Path, build: Build, tmp_path: Path
) -> None:
    (tmp_path / "none.json").write_text("[]")
    assert build(tmp_path / "none.json") == 0
    with serve(artifacts) as client:
        for path in ("/", "/?q=weather&category=Data", "/endpoints", "/endpoints?q=weather"):
            page = client.get(path).text
            assert "<h2>This catalogue is empty</h2>" in page
            assert "ratecard build services.jsonl" in page
        page = client.get("/ecosystem").text
        assert '<p class="muted" role="status">No payments were indexed' in page
        assert "<dd>" not in page
        assert (
            "<code>ratecard build services.jsonl --transactions payments.csv</code></pre>" in page
        )
        assert "<svg" not in page


ICON = "https://icons.example/one.png"


def test_icons_are_loaded_only_where_the_operator_allows(artifacts: Path, build: Build) -> None:
    records = [
        service("one", name="One", iconUrl=ICON),
        service("two", name="Two", iconUrl="http://icons.example/two.png"),
    ]
    assert build(records) == 0
    for options in ([], ["--icons"]):
        with serve(artifacts, *options) as client:
            response = client.get("/").raise_for_status()
            policy = response.headers["content-security-policy"]
            images = re.findall('<img src="(http.*?)"', response.text)
            assert images == ([ICON] if options else [])
            assert ("img-src 'self' https:;" in policy) == bool(options)
            assert re.findall('class="icon" aria-hidden="true">(.)', response.text) == ["O", "T"]


def test_amounts_of_payments_are_shown_unrounded(artifacts: Path, build: Build) -> None:
    payments = [
        payment(tx_hash="0x01", amount=1, decimals=18),
        payment(tx_hash="0x02", amount=123_456_789_012_345, decimals=6),
        payment(tx_hash="0x03", amount=5, decimals=0),
    ]
    assert build([service()], payments=payments) == 0
    with serve(artifacts) as client:
        amounts = re.findall('class="amount">(.*?)<', client.get("/ecosystem?timeframe=1").text)
    assert sorted(amounts) == ["$0.000000000000000001", "$123456789.012345", "$5"]
