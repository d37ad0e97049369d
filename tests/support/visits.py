"""A visit of the page with a real browser, during which nothing may go wrong unseen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from playwright.sync_api import Browser, BrowserContext, Page, expect

expect.set_options(timeout=20_000)


@contextmanager
def visit(
    browser: Browser, client: httpx.Client, *, allowed: str = "", **options: Any
) -> Iterator[Page]:
    """A page in a profile of its own, of what `client` is a client of.

    Fails in the end when there was an error or a warning, a violation of the policy, a dialog, a
    request that failed or one to anywhere else, unless it matches the pattern `allowed`.
    """
    origin = str(client.base_url).rstrip("/")
    context = browser.new_context(base_url=origin, **options)
    try:
        mishaps = _mishaps(context, origin)
        page = context.new_page()
        yield page
        # Round trips, so that what was on its way has arrived.
        page.evaluate("1")
        unexpected = [each for each in mishaps if not (allowed and re.search(allowed, each))]
        assert not unexpected, unexpected
    finally:
        context.close()


def shows(page: Page, found: httpx.Response) -> None:
    """Wait until the catalogue lists the services of an answer of the API, and no others."""
    names = [service["name"] for service in found.raise_for_status().json()["services"]]
    expect(page.locator("#results h2")).to_have_text(names)


def address(page: Page) -> str:
    """Path and query of where the page is."""
    text: str = page.evaluate("location.pathname + location.search")
    return text


def cards(page: Page) -> list[list[list[str]]]:
    """Of each card that is listed, its slots: name, text, whether it is hidden, address."""
    found: list[list[list[str]]] = page.locator("#results > li").evaluate_all(
        "cards => cards.map(card => [...card.querySelectorAll('[data-slot]')].map(slot =>"
        " [slot.dataset.slot, slot.textContent, slot.hidden && 'hidden', slot.href ?? '']))"
    )
    return found


def cards_by_script(page: Page) -> list[list[list[str]]]:
    """The same where the script has listed the services once more."""
    page.evaluate("""
        for (const card of document.querySelectorAll("#results > li")) card.dataset.before = "";
        dispatchEvent(new PopStateEvent("popstate"));
    """)
    expect(page.locator("#results > [data-before]")).to_have_count(0)
    return cards(page)


def _mishaps(context: BrowserContext, origin: str) -> list[str]:
    mishaps: list[str] = []

    def note(event: Any, told: Callable[[Any], str]) -> None:
        context.on(event, lambda happened: mishaps.append(f"{event}: {told(happened)}"))

    def leaves(request: Any) -> None:
        if not request.url.startswith(f"{origin}/"):
            mishaps.append(f"leaves: {request.url[:200]}")

    def fails(request: Any) -> None:
        if request.failure != "net::ERR_ABORTED":  # as a search is by the next one
            mishaps.append(f"fails: {request.url} {request.failure}")

    def says(message: Any) -> None:
        if message.type in ("error", "warning"):
            mishaps.append(f"says: {message.text}")

    def asks(dialog: Any) -> None:
        mishaps.append(f"asks: {dialog.message}")
        dialog.dismiss()

    note("weberror", lambda error: str(error.error))
    context.on("request", leaves)
    context.on("requestfailed", fails)
    context.on("console", says)
    context.on("dialog", asks)
    return mishaps
