"""Host names in ASCII, and URLs that lead to the same resource."""

from __future__ import annotations

import sys

import pytest

from indexer.errors import IndexerError
from indexer.urls import ascii_host, read_address

HOSTS = {
    "Example.COM": "example.com",
    "faß.example": "xn--fa-hia.example",
    "Bücher.Example:8443": "xn--bcher-kva.example:8443",
    "xn--bcher-kva.example": "xn--bcher-kva.example",
    "日本。example": "xn--wgv71a.example",
    "ｗｗｗ.example": "www.example",
    "some_host.example": "some_host.example",
}


@pytest.mark.parametrize("name", HOSTS)
def test_a_host_name_is_mapped_by_uts_46_and_encoded_by_idna_2008(name: str) -> None:
    assert ascii_host(name) == HOSTS[name]


@pytest.mark.parametrize("name", ["\u2024.example", "é\ud800.example", "é" * 64 + ".example"])
def test_a_name_without_an_ascii_form_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        ascii_host(name)


def test_urls_of_sharp_s_and_double_s_lead_to_two_hosts() -> None:
    sharp, double = read_address("https://faß.example/"), read_address("https://fass.example/")
    assert sharp.identity == "https://xn--fa-hia.example/"
    assert double.identity == "https://fass.example/"


def test_without_the_package_idna_only_names_in_ascii_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "idna", None)
    assert ascii_host("Example.com") == "example.com"
    with pytest.raises(IndexerError, match=r"pip install 'ratecard\[indexer\]'"):
        ascii_host("bücher.example")
