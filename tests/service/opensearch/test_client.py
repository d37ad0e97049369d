"""The client of a cluster over TLS, with certificates made here."""

from __future__ import annotations

import asyncio
import ssl
import threading
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from indexer.opensearch.loading import ClusterFailed, SearchCluster
from indexer.options import ClusterOptions
from service.errors import EngineUnavailable, Overloaded
from service.opensearch import client
from service.opensearch.client import Cluster
from service.opensearch.connection import ClusterAddress
from tests.support.cluster.stub import Answer, run_stub

FOUND: Answer = (
    200,
    {"timed_out": False, "_shards": {"total": 1, "successful": 1}, "hits": {"total": {"value": 7}}},
)


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


def count(address: ClusterAddress) -> int:
    """Return the number of matches of a search."""

    async def search() -> int:
        cluster = Cluster(address)
        try:
            return (await cluster.search("any", {"size": 0})).total
        finally:
            await cluster.close()

    return asyncio.run(search())


def test_certificates_are_verified_by_the_given_authority(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with run_stub(lambda _: FOUND, context) as stub:
        assert count(ClusterAddress(stub.url, ca=str(certificate))) == 7
        with pytest.raises(EngineUnavailable, match="certificate of OpenSearch is not trusted"):
            count(ClusterAddress(stub.url))
        builder = SearchCluster(ClusterOptions(ClusterAddress(stub.url)), certificate.parent)
        with pytest.raises(ClusterFailed, match="see --opensearch-ca"):
            builder.clean([])


def test_a_silent_node_is_asked_once_and_then_left_out() -> None:
    released = threading.Event()

    def wait(_: str) -> Answer:
        released.wait(30)
        return FOUND

    async def search(address: ClusterAddress) -> list[int]:
        cluster = Cluster(address)
        try:
            return [(await cluster.search("any", {"size": 0})).total for _ in range(6)]
        finally:
            await cluster.close()

    with run_stub(wait) as silent, run_stub(lambda _: FOUND) as node:
        address = ClusterAddress(f"{silent.url},{node.url}", timeout=2)
        assert asyncio.run(search(address)) == [7] * 6
        released.set()
        assert len(silent.requests) <= 1
        assert len(node.requests) == 6


def test_further_searches_than_may_wait_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_SEARCHES", 3)

    async def search(address: ClusterAddress) -> list[object]:
        cluster = Cluster(address)
        try:
            await cluster.search("any", {"size": 0})  # the client makes its connections
            searches = [cluster.search("any", {"size": 0}) for _ in range(5)]
            return [*await asyncio.gather(*searches, return_exceptions=True)]
        finally:
            await cluster.close()

    with run_stub(lambda _: FOUND) as stub:
        answers = asyncio.run(search(ClusterAddress(stub.url)))
    assert [isinstance(each, Overloaded) for each in answers] == [False] * 3 + [True] * 2


def test_errors_of_a_node_are_not_repeated_at_others() -> None:
    with run_stub(lambda _: (503, {})) as stub:
        with pytest.raises(EngineUnavailable):
            count(ClusterAddress(f"{stub.url},{stub.url}/other"))
        assert len(stub.requests) == 1
