"""Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

# The headless shell opens profiles and pages faster than the full browser.
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
OPTIONS = (
    "--no-sandbox",  # Chromium's sandbox does not run as root in a container
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Open a headless browser. While it is open, its thread can run no other event loop."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        try:
            yield browser
        finally:
            browser.close()
