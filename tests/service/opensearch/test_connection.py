"""Addresses of clusters: what clients get, and what people see."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from service.opensearch.connection import ClusterAddress, shown
from service.settings import Settings
from tests.support.running import ROOT


def test_nodes_have_their_own_credentials_or_those_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text("reader:hush\n")
    address = ClusterAddress("https://a%40b:s%3At@one.example,http://[::1]:9201/prefix/", str(file))
    first, second = address.client_arguments()["hosts"]
    assert first == {
        "host": "one.example",
        "port": 443,
        "use_ssl": True,
        "url_prefix": "",
        "http_auth": "a@b:s:t",
    }
    assert (second["host"], second["port"], second["use_ssl"]) == ("::1", 9201, False)
    assert (second["url_prefix"], second["http_auth"]) == ("prefix", "reader:hush")


def test_people_never_see_credentials() -> None:
    urls = "https://reader:hush@one.example:9200,http://two.example"
    assert shown(urls) == "https://one.example:9200, http://two.example:80"
    assert "hush" not in repr(ClusterAddress(urls))
    assert shown("nonsense with hush") == "not valid"


@pytest.mark.parametrize(
    "urls",
    [
        "",
        "one.example:9200",
        "ftp://hush@a",
        "https://",
        "http://a:0",
        "http://a:x",
        "http://a?hush",
    ],
)
def test_what_is_no_url_is_refused_without_its_text(urls: str) -> None:
    with pytest.raises(ValueError, match="URL 1 of the cluster is none") as error:
        ClusterAddress(urls).client_arguments()
    assert "hush" not in str(error.value)


def test_a_file_without_a_colon_is_no_credentials(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text("hush")
    with pytest.raises(ValueError, match="must hold `user:password`") as error:
        ClusterAddress("http://a.example", str(file)).client_arguments()
    assert "hush" not in str(error.value)


@pytest.mark.parametrize(
    "given", [{"engine": "opensearch"}, {"opensearch_url": "http://a.example"}]
)
def test_the_engine_and_its_url_need_each_other(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="need each other"):
        Settings(**given)  # type: ignore[arg-type]  # names and texts


def run_without_extra(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python without the client of OpenSearch."""
    blocked = "import sys; sys.modules.update(opensearchpy=None, aiohttp=None, pyroaring=None); "
    command = [sys.executable, "-c", blocked + program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def test_the_embedded_engine_needs_no_extra() -> None:
    done = run_without_extra("import service.app, indexer.cli.main, service.mcp.__main__")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("service.__main__", []),
        ("indexer.__main__", ["build", "seeds/services.jsonl", "--out", "build/nowhere"]),
    ],
)
def test_without_the_extra_programs_say_what_to_install(module: str, arguments: list[str]) -> None:
    given = ["--engine", "opensearch", "--opensearch-url", "http://a.example"]
    done = run_without_extra(
        f"from {module} import main; sys.exit(main(sys.argv[1:]))",
        *arguments,
        *given,
    )
    assert done.returncode == 2
    assert "pip install -e '.[opensearch]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_cannot_be_sent_or_verified_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be Latin-1"):
        ClusterAddress("http://reader:%E2%82%AC@a.example").client_arguments()
    file = tmp_path / "ca.pem"
    file.write_text("no certificate")
    with pytest.raises(ValueError, match="holds no certificates"):
        ClusterAddress("https://a.example", ca=str(file)).client_arguments()
    with pytest.raises(FileNotFoundError):
        ClusterAddress("https://a.example", ca=str(tmp_path / "none")).client_arguments()
