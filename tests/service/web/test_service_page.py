"""The page of a service, without a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from itertools import product
from pathlib import Path

import httpx
import pytest

from service.app import create_app
from service.settings import Settings
from tests.support.clients.mcp import structured
from tests.support.running import Json, build_records, endpoint, in_process, service


@contextmanager
def client_of(folder: Path, **endpoints: Json) -> Iterator[httpx.Client]:
    """Serve services that have one endpoint each, by id."""
    records = [service(name, endpoints=[each]) for name, each in endpoints.items()]
    artifacts = build_records(folder, records)
    with in_process(create_app(Settings(artifacts=str(artifacts)))) as client:
        yield client


@pytest.mark.parametrize("method", ["GET|POST", "POST/GET", " post , get", "GET", ""])
def test_the_link_to_other_sellers_leads_to_them(method: str, tmp_path: Path) -> None:
    tides = endpoint() | {"method": method, "description": "Predict the tide of any harbour"}
    one, two = (tides | {"url": f"https://{each}.example/v1"} for each in ("one", "two"))
    with client_of(tmp_path, a=one, b=two) as client:
        page = client.get("/services/a").text
        (link,) = re.findall(r'href="(/v1/endpoints/alternatives[^"]*)"', page)
        answer = client.get(unescape(link))
    assert [each["url"] for each in answer.json()["endpoints"]] == [two["url"]]


def test_a_call_without_a_command_has_programs(tmp_path: Path) -> None:
    text = {"group": "body", "name": "text", "type": "string", "example": "one\ntwo"}
    call = endpoint() | {"method": "POST", "bodyType": "text/plain", "wholeBody": True}
    with client_of(tmp_path, a=call | {"parameters": [text]}) as client:
        page = client.get("/services/a").text
    assert "curl -i" not in page
    assert 'id="Python-0" checked' in page
    assert "content=&#39;one\\ntwo&#39;" in page


def test_the_arguments_for_mcp_name_the_endpoint_that_is_shown(tmp_path: Path) -> None:
    calls = [endpoint() | {"method": method} for method in ("GET", "POST")]
    prices = {"a": "0.01", "b": "0.02"}
    records = [
        service(name, endpoints=[each | {"pricing": endpoint(price)["pricing"]} for each in calls])
        for name, price in prices.items()
    ]
    artifacts = build_records(tmp_path, records)
    with in_process(create_app(Settings(artifacts=str(artifacts), mcp=True))) as client:
        for name, (place, call) in product(prices, enumerate(calls)):
            page = unescape(client.get(f"/services/{name}?offset={place}").text)
            (text,) = re.findall(r"Arguments: (.*?)<", page)
            found = structured(artifacts, "how_to_call", **json.loads(text))
            assert found["id"].startswith(f"{name}/{place}-")
            assert found["method"] == call["method"]
            assert str(found["price_usd"]) == prices[name]
