"""The client of a cluster: TLS, nodes that fail, and responses that are none of OpenSearch."""

from __future__ import annotations

import asyncio
import logging
import ssl
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from indexer.__main__ import main as index
from indexer.opensearch.loading import ClusterFailed, SearchCluster
from indexer.options import ClusterOptions
from service.__main__ import main as serve
from service.errors import EngineUnavailable, IndexMissing
from service.opensearch import client_arguments
from service.opensearch.cluster import CLIENT, Cluster
from tests.support.cluster.stub import Answer, run_stub
from tests.support.running import ROOT, Json, Program

FOUND: Json = {"timed_out": False, "_shards": {"total": 1, "successful": 1}, "hits": {}}


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A file with a key and a certificate of 127.0.0.1 that it has signed itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "search.example")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path = tmp_path / "server.pem"
    path.write_bytes(key.private_bytes(pem, form, plain) + signed.public_bytes(pem))
    return path


def search(urls: str, times: int = 1, timeout: float = 5) -> None:
    """Search by a client of its own; raises the last error."""

    async def search_and_close() -> None:
        cluster = Cluster(client_arguments(urls), timeout, "shop")
        try:
            for _ in range(times):
                async with cluster.request():
                    assert await cluster.search("any", {"size": 0}) == FOUND
        finally:
            await cluster.close()

    asyncio.run(search_and_close())


def test_certificates_are_verified(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with run_stub(lambda _: (200, FOUND), context) as stub:
        with pytest.raises(EngineUnavailable, match="certificate is not trusted"):
            search(stub.url)
        options = ClusterOptions(client_arguments(stub.url))
        with pytest.raises(ClusterFailed, match="certificate is not trusted"):
            SearchCluster(options, certificate.parent).clean([])
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        search(stub.url)


def test_a_silent_node_is_asked_once_and_then_left_out() -> None:
    released = threading.Event()

    def wait(_: str) -> Answer:
        released.wait(30)
        return 200, FOUND

    with run_stub(wait) as silent, run_stub(lambda _: (200, FOUND)) as node:
        search(f"{silent.url},{node.url}", times=6, timeout=2)
        released.set()
        assert len(silent.requests) <= 1
        assert len(node.requests) == 6


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_search_that_a_node_cannot_answer_goes_to_the_next(status: int) -> None:
    with run_stub(lambda _: (status, {})) as failing, run_stub(lambda _: (200, FOUND)) as node:
        search(f"{failing.url},{node.url}", times=20)
        assert len(failing.requests) <= 1
        assert len(node.requests) == 20


@pytest.mark.parametrize(("status", "requests"), [(400, 1), (503, 1 + CLIENT["max_retries"])])
def test_an_error_of_all_nodes_is_reported_after_some_of_them(status: int, requests: int) -> None:
    with run_stub(lambda _: (status, {})) as stub:
        with pytest.raises(EngineUnavailable, match=f"status {status}"):
            search(",".join(f"{stub.url}/{number}" for number in range(9)))
        assert len(stub.requests) == requests


@pytest.mark.parametrize(
    "answer",
    [
        (200, ""),
        (200, '{"timed_out": false, "_sh'),
        (200, "<html>Welcome</html>"),
        (200, "[]"),
        (200, "{}"),
        (200, "[" * 100_000),
        (200, FOUND | {"timed_out": True}),
        (200, FOUND | {"_shards": {"total": 3, "successful": 2}}),
        (200, FOUND | {"_shards": {"total": 0, "successful": 0}}),
        (400, {"error": {"type": "parsing_exception", "reason": "no"}}),
        (404, "<html>Not here</html>"),
        (404, {"error": "Not here"}),
        (500, []),
        (500, {"error": {"type": "x", "root_cause": ["none"]}}),
    ],
)
def test_no_response_but_a_whole_one_of_opensearch_is_returned(answer: Answer) -> None:
    with run_stub(lambda _: answer) as stub, pytest.raises(EngineUnavailable) as error:
        search(stub.url)
    assert not isinstance(error.value, IndexMissing)


def test_an_index_is_missing_only_if_opensearch_says_so() -> None:
    missing = {"error": {"type": "index_not_found_exception", "reason": "no such index"}}
    with run_stub(lambda _: (404, missing)) as stub, pytest.raises(IndexMissing, match="build it"):
        search(stub.url)


def test_failures_are_logged_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        cluster = Cluster(client_arguments("http://127.0.0.1:1"), 5, "shop")
        for _ in range(5):
            with pytest.raises(EngineUnavailable):
                async with cluster.request():
                    await cluster.search("any", {})
        await cluster.close()

    with caplog.at_level(logging.ERROR, "uvicorn.error"):
        asyncio.run(fail())
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    "urls",
    [
        "",
        "one.example:9200",
        "ftp://hush@a",
        "https://",
        "http://[hush",
        "http://a:hush",
        "https://a:hush#hush@127.0.0.1:9200",
        "https://a:hush?hush@127.0.0.1:9200",
    ],
)
def test_what_is_no_url_is_refused_without_its_text(urls: str) -> None:
    with pytest.raises(ValueError, match="URL 1 of the cluster is none") as error:
        client_arguments(urls)
    assert "hush" not in str(error.value)


def test_the_embedded_engine_needs_no_extra() -> None:
    program = (
        "import sys; sys.modules.update(opensearchpy=None, aiohttp=None); "
        "import service.app, indexer.cli.main, service.mcp.__main__"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


@pytest.mark.parametrize(
    ("main", "arguments"),
    [(serve, []), (index, ["build", "seeds/services.jsonl", "--out", "build/nowhere"])],
)
def test_without_the_extra_programs_say_what_to_install(
    main: Program,
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "opensearchpy", None)
    with pytest.raises(SystemExit) as exit_:
        sys.exit(main([*arguments, "--opensearch-url", "http://a.example"]))
    assert exit_.value.code == 2
    assert "pip install -e '.[opensearch]'" in capsys.readouterr().err
