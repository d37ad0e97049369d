"""Names of services that are derived from their hosts."""

from __future__ import annotations

import pytest

from indexer.resources.names import host_labels, readable_name

NAMES = {
    "api.weather-data.example": "Weather Data",
    "www.x402.weather.example:8443": "Weather",
    "mesh.heurist.example": "Heurist Mesh",
    "staging.questflow.example": "Questflow Staging",
    "ai-tools.example": "AI Tools",
    "x402factory.example": "x402factory",
    "x402.example": "x402",
    "-.example": "-.example",
    "localhost": "Localhost",
    # suffixes of national registries
    "api.shop.co.uk": "Shop",
    "api.weather.or.jp": "Weather",
    "weather.go.kr": "Weather",
    "shop.kawasaki.jp": "Shop",
    "api.city.kawasaki.jp": "City",
    "parliament.uk": "Parliament",
    # suffixes of private registries and hosting platforms
    "api.shop.uk.com": "Shop",
    "my-weather-api.vercel.app": "My Weather",
    "api.vercel.app": "API",
    "vercel.app": "vercel.app",
    "capable-grace-production-ab1c.up.railway.app": "Capable Grace",
    "weather.someone.workers.dev": "Weather",
    "x402.someone.workers.dev": "Someone",
    "7d7f89d8.office-random.pages.dev": "Office Random",
    "main.office-random.pages.dev": "Office Random",
    "daa254c34060.ngrok-free.app": "daa254c34060.ngrok-free.app",
    "56e8ec99-70ab-4ac7-ac99-95eadb1013b6-00-4j.sisko.replit.dev": (
        "56e8ec99-70ab-4ac7-ac99-95eadb1013b6-00-4j.sisko.replit.dev"
    ),
    "brown-deer.mypinata.cloud": "Brown Deer",
    "mypinata.cloud": "mypinata.cloud",
    # beyond ASCII
    "xn--bcher-kva.example": "xn--bcher-kva",
    "api.xn--pypal-4ve.example": "xn--pypal-4ve",
    "shop.xn--fiqs8s": "Shop",
    "xn--a.example": "xn--a",
    # IP addresses
    "8.8.8.8": "8.8.8.8",
    "8.8.8.8:8443": "8.8.8.8",
    "2606:4700:0000:0000:0000:0000:0000:0001": "2606:4700:0000:0000:0000:0000:0000:0001",
}


@pytest.mark.parametrize("domain", NAMES)
def test_a_domain_has_a_readable_name(domain: str) -> None:
    assert readable_name(domain) == NAMES[domain]


def test_a_label_beyond_ascii_is_decoded_for_searches_only() -> None:
    assert host_labels("api.xn--bcher-kva.example") == ["bücher"]
