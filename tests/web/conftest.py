"""The browser that all tests of the pages share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page

from tests.support.browser import CHROMIUM, open_browser
from tests.support.visits import visit


# Closed at the end of this package: while it is open, its thread can run no other event loop.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Open a browser; without Chromium its tests are skipped, except in CI."""
    if CHROMIUM is None and "CI" not in os.environ:
        pytest.skip("Chromium is not installed: apt-get install --no-install-recommends chromium")
    with open_browser() as browser:
        yield browser


@pytest.fixture
def page(browser: Browser, client: httpx.Client) -> Iterator[Page]:
    """Open a page of `client` that must not log an error; see `visit`."""
    with visit(browser, client) as page:
        yield page
