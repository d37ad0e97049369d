"""The page as it goes over the wire: what its answers allow, for how long, and to whom."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from service.web.static_files import FILES, VERSION
from tests.support.running import serve

PAGES = ("/", "/?q=weather", "/services/folioscope-example", "/ecosystem", "/services/nobody")
A_PERSON = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.mark.parametrize("path", PAGES)
def test_documents_have_a_strict_policy_and_nothing_inline(path: str, client: httpx.Client) -> None:
    response = client.get(path, headers=A_PERSON)
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    assert not re.search(
        r"<style|<script(?! (type=\"module\" )?src=)|\sstyle=|\son\w+=", response.text
    )
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//(?!www\.x402\.org/)", response.text)


def test_files_of_this_version_are_kept_for_ever_and_others_are_not(client: httpx.Client) -> None:
    named = set(re.findall(r"/assets/[\w./]+", client.get("/").text))
    assert named
    for path in {*named, *(f"/assets/{VERSION}/{name}" for name in FILES)}:
        response = client.get(path).raise_for_status()
        assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert response.headers["content-encoding"]
        assert "accept-encoding" in response.headers["vary"].lower()
        other = client.get(path.replace(VERSION, "before")).raise_for_status()
        assert other.headers["cache-control"] == "no-cache"
        assert other.content == response.content
    assert client.get(f"/assets/{VERSION}/../page.py").status_code == 404
    assert client.get("/assets/page.css").status_code == 404


@pytest.mark.parametrize("path", ["/services/nobody", "/?sort=nope", "/nowhere"])
def test_programs_are_refused_in_json_and_people_with_a_page(
    path: str, client: httpx.Client
) -> None:
    program, person = client.get(path), client.get(path, headers=A_PERSON)
    assert program.status_code == person.status_code
    assert program.json()["error"]["message"]
    assert person.headers["content-type"] == "text/html; charset=utf-8"
    assert "<h1>" in person.text


def test_people_get_json_from_the_api_whatever_happens(client: httpx.Client) -> None:
    for path in ("/v1/services?limit=0", "/v1/services/nobody", "/v1/services"):
        assert client.get(path, headers=A_PERSON).headers["content-type"] == "application/json"


def test_a_page_is_asked_for_again_only_when_it_changed(client: httpx.Client) -> None:
    response = client.get("/?q=weather")
    tag = {"if-none-match": response.headers["etag"]}
    assert client.get("/?q=weather", headers=tag).status_code == 304
    assert client.get("/?q=weather", headers={"if-none-match": '"other"'}).status_code == 200


def test_the_page_can_be_switched_off(sample: Path) -> None:
    with serve(sample, "--page", "false") as client:
        for path in (*PAGES[:4], f"/assets/{VERSION}/page.css"):
            response = client.get(path, headers=A_PERSON)
            assert response.status_code == 404
            assert response.json()["error"]["code"] == "path_not_found"
        assert client.get("/v1/services").json()["total"] == 184


def test_without_a_snapshot_people_are_told_what_is_missing_and_when_to_ask_again(
    artifacts: Path,
) -> None:
    with serve(artifacts) as client:
        response = client.get("/", headers=A_PERSON)
        assert (response.status_code, response.headers["retry-after"]) == (503, "5")
        assert "make index" in response.text
        assert client.get(f"/assets/{VERSION}/page.css").status_code == 200
