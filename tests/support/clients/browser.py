"""Debian's Chromium, driven by Playwright, and visits that fail on errors nobody sees."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright

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
expect.set_options(timeout=20_000)


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Open a headless browser. While it is open, its thread can run no other event loop."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def visit(
    browser: Browser, client: httpx.Client, *, allowed: str = "", **options: Any
) -> Iterator[Page]:
    """Open a page in a browser context of its own, with the base URL of `client`.

    Fails at the end if there was an error or a warning in the console, a violation of the content
    security policy, a dialog, a failed request or a request to another origin, unless its text
    matches the pattern `allowed`.
    """
    origin = str(client.base_url).rstrip("/")
    context = browser.new_context(base_url=origin, **options)
    try:
        errors = collect_errors(context, origin)
        page = context.new_page()
        yield page
        page.evaluate("1")  # a round trip, after which all earlier events have arrived
        unexpected = [error for error in errors if not (allowed and re.search(allowed, error))]
        assert not unexpected, unexpected
    finally:
        context.close()


def collect_errors(context: BrowserContext, origin: str) -> list[str]:
    """Return a list that collects the errors of a browser context."""
    errors: list[str] = []

    def on_request(request: Any) -> None:
        if not request.url.startswith(f"{origin}/"):
            errors.append(f"other origin: {request.url[:200]}")

    def on_failure(request: Any) -> None:
        if request.failure != "net::ERR_ABORTED":  # the next page aborts what the last one loads
            errors.append(f"failed request: {request.url} {request.failure}")

    def on_console(message: Any) -> None:
        if message.type in ("error", "warning"):
            errors.append(f"console: {message.text}")

    def on_dialog(dialog: Any) -> None:
        errors.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    context.on("weberror", lambda error: errors.append(f"exception: {error.error}"))
    context.on("request", on_request)
    context.on("requestfailed", on_failure)
    context.on("console", on_console)
    context.on("dialog", on_dialog)
    return errors


def search_box(page: Page) -> Locator:
    """Return the search box of the catalogue."""
    return page.get_by_role("searchbox", name="Search services by what they do")


def shows(page: Page, response: httpx.Response) -> None:
    """Wait until the catalogue lists the services of an API response, and no others."""
    names = [service["name"] for service in response.raise_for_status().json()["services"]]
    expect(page.locator("#results h2")).to_have_text(names)
