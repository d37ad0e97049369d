"""Names of services that are derived from their hosts."""

from __future__ import annotations

import subprocess
import sys

import pytest

from indexer.x402.members.naming import host_labels, readable_name
from tests.support.running import ROOT

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


@pytest.mark.parametrize("package", ["publicsuffixlist", "idna"])
def test_a_missing_package_is_named_with_the_command_that_installs_it(package: str) -> None:
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from indexer.x402.members.naming import readable_name\n"
        "readable_name('xn--bcher-kva.example')"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    advice = f"by {package}, which is not installed: install ratecard with the extra [indexer]"
    assert advice in process.stderr.splitlines()[-1]
