"""The browser that all tests of the pages share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page

from tests.support.clients.browser import CHROMIUM, collect_errors, open_browser


# Close the browser after this package: its event loop allows no other in the same thread.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Open a browser; without Chromium its tests are skipped, except in CI."""
    if CHROMIUM is None and "CI" not in os.environ:
        pytest.skip(
            "Chromium is missing: apt-get install --no-install-recommends chromium-headless-shell"
        )
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def visitor(browser: Browser, client: httpx.Client) -> Iterator[tuple[Page, list[str]]]:
    """Open the page that tests of a module share; a context for each would double their time."""
    origin = str(client.base_url).rstrip("/")
    context = browser.new_context(base_url=origin)
    errors = collect_errors(context, origin)
    yield context.new_page(), errors
    context.close()


@pytest.fixture
def page(visitor: tuple[Page, list[str]]) -> Iterator[Page]:
    """Return the shared page, and fail on errors as `visit` does."""
    page, errors = visitor
    errors.clear()  # those of an earlier test
    yield page
    page.unroute_all()
    page.goto("about:blank")
    assert not errors, errors
