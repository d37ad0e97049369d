"""Compressed responses, decoded by a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

import httpx
import pytest
from playwright.sync_api import Browser, Page

from service.http.compression import CODINGS

PATHS = (
    "/v1/services",
    "/v1/services?limit=100",
    "/v1/services/tidewatch-example",
    "/v1/search/services?q=tide",
    "/v1/ecosystem/stats?timeframe=365",
    "/openapi.json",
)
READ = """async path => {
    const response = await fetch(path, {cache: "no-store"});
    const hash = await crypto.subtle.digest("SHA-256", await response.arrayBuffer());
    const bytes = Array.from(new Uint8Array(hash));
    return bytes.map(byte => byte.toString(16).padStart(2, "0")).join("");
}"""


@pytest.fixture(scope="module", params=["", *(coding.decode() for coding in CODINGS)])
def page(request: pytest.FixtureRequest, browser: Browser, client: httpx.Client) -> Iterator[Page]:
    """Open a page that accepts one content coding, or those that Chromium accepts by itself.

    Its origin is that of the service, whose headers it may therefore read.
    """
    accepted = {"Accept-Encoding": request.param} if request.param else None
    page = browser.new_page(extra_http_headers=accepted)
    page.goto(f"{client.base_url}/healthz")
    yield page
    page.close()


@pytest.mark.parametrize("path", PATHS)
def test_chromium_decodes_compressed_responses(path: str, page: Page, client: httpx.Client) -> None:
    plain = client.get(path, headers={"Accept-Encoding": "identity"})
    with page.expect_response(lambda each: each.url.endswith(path)) as response:
        read = page.evaluate(READ, path)
    accepted = response.value.request.all_headers()["accept-encoding"].split(", ")
    coding = response.value.all_headers()["content-encoding"]
    assert coding == next(each.decode() for each in CODINGS if each.decode() in accepted)
    assert "content-encoding" not in plain.headers
    assert read == sha256(plain.content).hexdigest()
