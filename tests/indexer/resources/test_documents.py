"""Documents: a document speaks for the hosts of its source, and for no others."""

from __future__ import annotations

import msgspec
import pytest

from indexer.errors import InvalidRecord, LeftOut
from indexer.options import SourceOptions
from indexer.resources.documents import OTHER_HOSTS, Document

FETCHED = "https://docs.weather.example/openapi.json"
SHARED = "https://one.vercel.app/openapi.json"


@pytest.mark.parametrize(
    ("url", "source", "expected"),
    [
        ("https://api.weather.example/a", {"url": FETCHED}, True),
        ("https://WEATHER.example:8443/a", {"url": FETCHED}, True),
        ("https://weather.example.evil.example/a", {"url": FETCHED}, False),
        ("https://notweather.example/a", {"url": FETCHED}, False),
        ("https://two.vercel.app/a", {"url": SHARED}, False),
        ("https://one.vercel.app/a", {"url": SHARED}, True),
        ("https://evil.example/a", {"url": FETCHED, "curated": True}, True),
        ("https://api.weather.example/a", {"url": FETCHED, "hosts": ("evil.example",)}, False),
        ("https://api.weather.example/a", {"path": "a.json"}, False),
        ("https://api.weather.example/a", {"path": "a.json", "curated": True}, True),
        ("https://a.one.example/a", {"path": "a.json", "hosts": ("*.one.example",)}, True),
        ("https://one.example/a", {"path": "a.json", "hosts": ("*.one.example",)}, False),
        ("https://two.example/a", {"path": "a", "hosts": ("one.example",), "curated": True}, False),
        ("https://xn--bcher-kva.example/a", {"path": "a", "hosts": ("BÜCHER.example",)}, True),
        ("https://a.c.example/a", {"path": "a", "hosts": ("abc.example",)}, False),
    ],
)
def test_a_document_speaks_for_the_hosts_of_its_source(
    url: str, source: dict[str, object], expected: bool
) -> None:
    document = Document(b"", msgspec.convert({"name": "source"} | source, SourceOptions))
    if expected:
        document.check_host("$", url)
        return
    with pytest.raises(LeftOut) as raised:
        document.check_host("$", url)
    assert raised.value.rule == OTHER_HOSTS


def test_a_text_that_is_no_url_is_rejected() -> None:
    with pytest.raises(InvalidRecord, match=r"^\$\.a: is not a URL"):
        Document(b"", SourceOptions(name="source")).check_host("$.a", "weather")
