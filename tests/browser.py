"""A real browser to try the page in: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium", path="/usr/bin")
OPTIONS = (
    "--no-sandbox",  # Chromium has none to offer to root in a container
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def missing() -> str | None:
    """What to install before a browser can be opened, if anything."""
    if find_spec("playwright") is None:
        return "playwright is not installed: pip install --editable '.[dev]'"
    if CHROMIUM is None:
        return "Chromium is not installed: apt-get install --no-install-recommends chromium"
    return None


@contextmanager
def open_browser() -> Iterator[Browser]:
    """A browser without a window. While it is open, its thread can run no other event loop."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  # it may be missing

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        try:
            yield browser
        finally:
            browser.close()
