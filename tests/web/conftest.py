"""The browser that all tests of the pages share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page

from tests.support.browser import CHROMIUM, open_browser
from tests.support.visits import collect_errors


# Closed at the end of this package: while it is open, its thread can run no other event loop.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Open a browser; without Chromium its tests are skipped, except in CI."""
    if CHROMIUM is None and "CI" not in os.environ:
        pytest.skip("Chromium is missing: apt-get install --no-install-recommends chromium")
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def visitor(browser: Browser, client: httpx.Client) -> Iterator[tuple[Page, list[str]]]:
    """Open the page of a module, since a profile for each test would double their time."""
    origin = str(client.base_url).rstrip("/")
    context = browser.new_context(base_url=origin)
    errors = collect_errors(context, origin)
    yield context.new_page(), errors
    context.close()


@pytest.fixture
def page(visitor: tuple[Page, list[str]]) -> Iterator[Page]:
    """Return a blank page of `client`, on which nothing may go wrong; see `visit`."""
    page, errors = visitor
    yield page
    page.unroute_all()
    page.goto("about:blank")
    assert not errors, errors
