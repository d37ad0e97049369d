"""Debian's Chromium, driven by Playwright, where both are installed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = shutil.which("chromium")
QUIET = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
    "--no-sandbox",  # it has no user of its own in a container, and sees this machine only
)
MISSING = " and ".join(
    name
    for name, found in (
        ("Debian's package `chromium`", CHROMIUM),
        ("Python's package `playwright`", find_spec("playwright")),
    )
    if not found
)
"""What to install for a browser; empty when it is all there."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window, closed at the end; only where nothing is `MISSING`.

    Meanwhile the thread has a running event loop, so `asyncio.run` fails there: open it for one
    module of tests at most.
    """
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  # it may be missing

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*QUIET])
        try:
            yield browser
        finally:
            browser.close()
