"""The API in Swagger UI at `/docs`, in a real browser."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, ViewportSize

from tests.support.clients.browser import visit
from tests.support.running import Json


@pytest.fixture
def page(browser: Browser, client: httpx.Client) -> Iterator[Page]:
    """Open a dark page as narrow as a telephone."""
    viewport: ViewportSize = {"width": 400, "height": 800}
    with visit(browser, client, viewport=viewport, color_scheme="dark") as page:
        yield page


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


def test_every_operation_is_shown(page: Page, client: httpx.Client) -> None:
    page.goto("/docs")
    page.wait_for_selector(".opblock")
    shown = page.locator(".opblock-summary-path").evaluate_all(
        "paths => paths.map(path => path.dataset.path)"
    )
    assert sorted(shown) == sorted(client.get("/openapi.json").json()["paths"])
    assert page.title() == "API · Ratecard"
    assert page.evaluate("document.documentElement.classList.contains('dark-mode')")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_the_examples_of_search_and_fetch_can_be_tried(page: Page) -> None:
    page.goto("/docs#/Services/searchServices")
    response, text = _try(page, "searchServices")
    assert response["total"] > 0
    assert f'"name": "{response["services"][0]["name"]}"' in text
    page.locator("#operations-Services-getServiceById .opblock-summary-control").click()
    response, text = _try(page, "getServiceById")
    assert f'"name": "{response["service"]["name"]}"' in text


def _try(page: Page, operation: str) -> tuple[Json, str]:
    """Execute an operation with its examples; returns its response, and the text shown."""
    block = page.locator(f"[id$=-{operation}]")
    with page.expect_response(re.compile("/v1/")) as response:
        block.locator(".execute").click()
    shown = block.locator(".live-responses-table tbody tr").first
    assert shown.locator(".response-col_status").inner_text().startswith("200")
    return response.value.json(), str(shown.text_content())
