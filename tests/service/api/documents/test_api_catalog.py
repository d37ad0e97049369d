"""`/.well-known/api-catalog`: links that lead to this service and to all that it lists."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from service.app import create_app
from service.settings import Settings

PATH = "/.well-known/api-catalog"


def links_of(linkset: list[dict[str, Any]]) -> list[str]:
    """Return the targets of all links."""
    relations = [value for context in linkset for value in context.values()]
    return [link["href"] for links in relations if isinstance(links, list) for link in links]


def test_pages_lead_to_the_documents_of_all_services(client: httpx.Client) -> None:
    path, found = f"{PATH}?limit=50", []
    while path:
        response = client.get(path)
        assert response.headers["content-type"] == (
            'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"'
        )
        own, catalogue, *services = response.json()["linkset"]
        assert own["anchor"] == "/"
        found += [each["service-desc"][0]["href"] for each in services]
        assert len(services) <= 50
        path = catalogue["next"][0]["href"] if "next" in catalogue else ""
    listed = client.get("/v1/services?limit=100").json()
    first = [f"/v1/services/{each['id']}/openapi.json" for each in listed["services"]]
    assert found[:100] == first
    assert len(set(found)) == len(found) == listed["total"]


def test_every_link_answers_and_head_does(client: httpx.Client) -> None:
    linkset = client.get(f"{PATH}?limit=3").json()["linkset"]
    for link in links_of(linkset):
        assert client.get(link).status_code == 200, link
    head = client.head(PATH)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"].startswith("application/linkset+json")
    assert head.headers["link"] == f'<{PATH}>; rel="api-catalog"'


@pytest.mark.parametrize("has_page", [True, False])
def test_links_are_those_of_what_is_served(sample: Path, *, has_page: bool) -> None:
    pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
    app = create_app(Settings(artifacts=str(sample), page=has_page, mcp=True))

    async def ask() -> list[str]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            found = links_of((await client.get(f"{PATH}?limit=1")).json()["linkset"])
            for link in found:
                assert (await client.get(link)).status_code == 200, link
        return found

    found = asyncio.run(ask())
    assert ("/docs" in found) is has_page


def test_links_follow_the_path_of_the_application(sample: Path) -> None:
    outer = Starlette(routes=[Mount("/shop", create_app(Settings(artifacts=str(sample))))])

    async def ask() -> None:
        transport = httpx.ASGITransport(outer)
        base = "http://a.example"
        async with httpx.AsyncClient(transport=transport, base_url=base) as client:
            linkset = (await client.get(f"/shop{PATH}?limit=1")).json()["linkset"]
            for link in links_of(linkset):
                assert link.startswith("/shop/")
                assert (await client.get(urljoin(base, link))).status_code == 200

    asyncio.run(ask())
