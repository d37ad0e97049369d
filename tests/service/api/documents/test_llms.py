"""`/llms.txt`: short, and right wherever the service is mounted."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp

from service.app import create_app
from service.settings import Settings
from tests.support.running import in_process


def test_the_text_fits_one_screen_and_all_its_links_answer(
    client: httpx.Client,
) -> None:
    response = client.get("/llms.txt")
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    text = response.text
    title, blank, summary = text.split("\n")[:3]
    assert (title, blank, summary[:2]) == ("# Ratecard", "", "> ")
    assert "184 services with 1,732 endpoints" in text
    assert text.count("\n") < 60
    assert len(response.content) < 3100
    assert max(map(len, text.splitlines())) <= 100
    assert len(links(text)) >= 5
    for link in links(text):
        assert client.get(urljoin("/llms.txt", link)).status_code == 200
    found = client.get(urljoin("/llms.txt", links(text)[0])).json()
    assert found["total"] > 0
    assert found["services"][0]["endpoints"] == []


def test_the_text_and_the_documentation_work_where_they_are_mounted(sample: Path) -> None:
    outer = Starlette(routes=[Mount("/shop", create_app(Settings(artifacts=str(sample))))])
    with in_process(outer) as client:
        page = client.get("/shop/docs").text
        text = client.get("/shop/llms.txt").text
        addresses = re.findall(r'(?:href|src)="([^"]+)"', page)
        assert all(address.startswith(("/shop/", "#")) for address in addresses)
        for address in {*addresses, *links(text)}:
            found = client.get(urljoin("/shop/docs", address))
            assert found.status_code == 200, address


@pytest.mark.parametrize("prefix", ["", "/shop", "/api"])
@pytest.mark.parametrize("switches", [*product((False, True), repeat=3)])
def test_the_text_and_the_advice_of_errors_name_only_addresses_that_answer(
    switches: tuple[bool, bool, bool], prefix: str, sample: Path
) -> None:
    page, downloads, mcp = switches
    if mcp:
        pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
    settings = Settings(artifacts=str(sample), page=page, downloads=downloads, mcp=mcp)
    app: ASGIApp = create_app(settings)
    if prefix == "/shop":
        app = Starlette(routes=[Mount(prefix, app)])
    with in_process(app, "" if prefix == "/shop" else prefix) as client:
        text = client.get(f"{prefix}/llms.txt").text
        addresses = [urljoin(f"{prefix}/llms.txt", link) for link in links(text)]
        for path in ("/nowhere", f"/v1/snapshots/{'0' * 20}", "/discovery/nowhere"):
            answer = client.get(f"{prefix}{path}")
            assert answer.status_code in {404, 410}
            error = answer.json().get("errorMessage") or answer.json()["error"]["message"]
            addresses += re.findall(r"see (\S+)$", error)
        assert {f"{prefix}/openapi.json", f"{prefix}/v1/snapshots/current"} < {*addresses}
        for address in addresses:
            assert client.get(address).status_code == 200, address
        assert (client.post(f"{prefix}/mcp").status_code != 404) == ("`mcp`" in text)


def test_no_cacheable_document_depends_on_the_host_header(client: httpx.Client) -> None:
    for path in ("/llms.txt", "/docs", "/openapi.json"):
        response = client.get(path, headers={"host": "evil.example", "x-forwarded-host": "evil"})
        assert "evil" not in response.text
        assert response.headers["etag"] == client.get(path).headers["etag"]


def links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)]+)\)", text)
