"""The documentation: the viewer at `/docs`, in a browser, and `/llms.txt`."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Page
from starlette.applications import Starlette
from starlette.routing import Mount

from service.app import create_app
from service.settings import Settings
from tests.support.running import Build, Json, service


class Visit:
    """A page, with what its console said and what it asked for."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.said: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    page = browser.new_page(viewport={"width": 400, "height": 800}, color_scheme="dark")
    yield Visit(page)
    page.close()


def links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)]+)\)", text)


def test_the_documentation_allows_its_own_files_and_nothing_inline(client: httpx.Client) -> None:
    policy = client.get("/docs").headers["content-security-policy"]
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert directives["default-src"] == "'none'"
    assert directives["script-src"] == directives["style-src"] == "'self'"
    assert directives["frame-ancestors"] == directives["base-uri"] == "'none'"
    assert "unsafe" not in policy


def test_the_documentation_is_sent_compressed(client: httpx.Client) -> None:
    sent = 0
    for path in ("/docs", *re.findall(r'(?:href|src)="(/assets/[^"]+)"', client.get("/docs").text)):
        plain = client.get(path, headers={"accept-encoding": "identity"}).content
        with client.stream("GET", path, headers={"accept-encoding": "gzip"}) as response:
            body = b"".join(response.iter_raw())
        sent += len(body)
        if response.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        assert body == plain
    assert sent < 500_000


def test_the_documentation_and_the_text_work_where_they_are_mounted(sample: Path) -> None:
    outer = Starlette(routes=[Mount("/shop", create_app(Settings(artifacts=str(sample))))])

    async def ask() -> None:
        transport = httpx.ASGITransport(outer)
        base = "http://a.example"
        async with httpx.AsyncClient(transport=transport, base_url=base) as client:
            page = (await client.get("/shop/docs")).text
            text = (await client.get("/shop/llms.txt")).text
            addresses = re.findall(r'(?:href|src)="([^"]+)"', page)
            assert all(address.startswith(("/shop/", "#")) for address in addresses)
            for address in {*addresses, *links(text)}:
                found = await client.get(urljoin("/shop/docs", address))
                assert found.status_code == 200, address

    asyncio.run(ask())


def test_the_text_for_agents_fits_one_screen_and_all_its_links_answer(
    client: httpx.Client,
) -> None:
    response = client.get("/llms.txt")
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    text = response.text
    title, blank, summary = text.split("\n")[:3]
    assert (title, blank, summary[:2]) == ("# Ratecard", "", "> ")
    assert "184 services with 1,732 endpoints" in text
    assert text.count("\n") < 60
    assert len(response.content) < 3000
    assert max(map(len, text.splitlines())) <= 100
    assert len(links(text)) >= 5
    for link in links(text):
        assert client.get(urljoin("/llms.txt", link)).status_code == 200
    found = client.get(urljoin("/llms.txt", links(text)[0])).json()
    assert found["total"] > 0
    assert found["services"][0]["endpoints"] == []


def test_what_a_client_calls_the_host_is_nowhere_in_what_is_kept(client: httpx.Client) -> None:
    for path in ("/llms.txt", "/docs", "/openapi.json"):
        response = client.get(path, headers={"host": "evil.example", "x-forwarded-host": "evil"})
        assert "evil" not in response.text
        assert response.headers["etag"] == client.get(path).headers["etag"]


def _example(document: Json, path: str) -> str | None:
    first: Json = document["paths"][path]["get"]["parameters"][0]
    return first.get("example")


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("Tide tables", "Tide tables"),
        ("Weather of tomorrow", "weather forecast"),
        ("  <b>x</b> ", "<b>x</b>"),
        ("  ", "weather forecast"),
        ("z" * 3000, "z" * 2000),
    ],
)
def test_the_examples_of_the_document_find_something_in_whatever_is_served(
    name: str, query: str, artifacts: Path, build: Build
) -> None:
    assert build([service("only", name=name)]) == 0
    app = create_app(Settings(artifacts=str(artifacts)))

    async def ask() -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://a.example") as client:
            document = (await client.get("/openapi.json")).json()
            assert _example(document, "/v1/services/{id}") == "only"
            assert (await client.get("/v1/services/only")).status_code == 200
            assert _example(document, "/v1/search/services") == query
            found = await client.get("/v1/search/services", params={"q": query})
            assert found.json()["total"] == (1 if name.strip() else 0)

    asyncio.run(ask())


def test_an_empty_catalogue_has_no_example_of_an_id(artifacts: Path, build: Build) -> None:
    empty = artifacts.with_name("empty.json")
    empty.write_text("[]")
    assert build(empty) == 0
    app = create_app(Settings(artifacts=str(artifacts)))

    async def ask() -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://a.example") as client:
            document = json.loads((await client.get("/openapi.json")).content)
            assert _example(document, "/v1/services/{id}") is None
            assert "0 services" in (await client.get("/llms.txt")).text

    asyncio.run(ask())


def test_every_operation_is_shown_and_nothing_else_is_asked_for(
    client: httpx.Client, visit: Visit
) -> None:
    page, base = visit.page, str(client.base_url)
    page.goto(f"{base}/docs")
    page.wait_for_selector(".opblock")
    shown = page.locator(".opblock-summary-path").evaluate_all(
        "paths => paths.map(path => path.dataset.path)"
    )
    assert sorted(shown) == sorted(client.get("/openapi.json").json()["paths"])
    assert page.title() == "API · Ratecard"
    assert page.evaluate("document.documentElement.classList.contains('dark-mode')")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert {urlsplit(url).netloc for url in visit.asked} == {urlsplit(base).netloc}
    assert visit.said == []


def test_a_search_that_is_tried_as_it_is_finds_services_and_so_does_a_fetch(
    client: httpx.Client, visit: Visit
) -> None:
    page = visit.page
    page.goto(f"{client.base_url}/docs#/Services/searchServices")
    answer = _try(page, "searchServices")
    found = client.get(visit.asked[-1]).json()
    assert found["total"] > 0
    assert f'"name": "{found["services"][0]["name"]}"' in answer
    page.locator("#operations-Services-getServiceById .opblock-summary-control").click()
    answer = _try(page, "getServiceById")
    fetched = client.get(visit.asked[-1]).json()
    assert f'"name": "{fetched["service"]["name"]}"' in answer
    assert visit.said == []


def _try(page: Page, operation: str) -> str:
    """Execute an operation with what is filled in; returns the answer that is shown."""
    block = page.locator(f"[id$=-{operation}]")
    block.locator(".execute").click()
    shown = block.locator(".live-responses-table tbody tr").first
    assert shown.locator(".response-col_status").inner_text().startswith("200")
    return str(shown.text_content())
