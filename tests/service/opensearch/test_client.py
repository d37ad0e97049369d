"""The client of a cluster: TLS, nodes that fail, and responses that cannot be of the index."""

from __future__ import annotations

import asyncio
import base64
import logging
import ssl
import threading
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from indexer.opensearch.loading import ClusterFailed, SearchCluster
from indexer.options import ClusterOptions
from service.errors import EngineUnavailable, IndexMissing, Overloaded
from service.opensearch import client
from service.opensearch.client import Cluster
from service.opensearch.connection import ClusterAddress
from service.opensearch.index import ClusterIndex
from service.opensearch.requests import SearchRequest
from service.opensearch.responses import SearchResponse
from tests.support.cluster.stub import Answer, run_stub

DOCUMENTS, GROUPS = 100, 10
INDEX = ClusterIndex("any", DOCUMENTS, GROUPS)
PAGE = SearchRequest({"match_all": {}}, size=9)
FOUND: dict[str, Any] = {
    "timed_out": False,
    "_shards": {"total": 1, "successful": 1},
    "hits": {"total": {"value": 7}},
}


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


def ask(address: ClusterAddress, request: SearchRequest = PAGE) -> SearchResponse:
    """Search by a client of its own."""

    async def search() -> SearchResponse:
        cluster = Cluster(address)
        try:
            return await cluster.search(INDEX, request)
        finally:
            await cluster.close()

    return asyncio.run(search())


def test_certificates_are_verified_by_the_given_authority(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with run_stub(lambda _: (200, FOUND), context) as stub:
        assert ask(ClusterAddress(stub.url, ca=str(certificate))).total == 7
        with pytest.raises(EngineUnavailable, match="certificate of OpenSearch is not trusted"):
            ask(ClusterAddress(stub.url))
        builder = SearchCluster(ClusterOptions(ClusterAddress(stub.url)), certificate.parent)
        with pytest.raises(ClusterFailed, match="see --opensearch-ca"):
            builder.clean([])


def test_a_silent_node_is_asked_once_and_then_left_out() -> None:
    released = threading.Event()

    def wait(_: str) -> Answer:
        released.wait(30)
        return 200, FOUND

    async def search(address: ClusterAddress) -> list[int]:
        cluster = Cluster(address)
        try:
            return [(await cluster.search(INDEX, PAGE)).total for _ in range(6)]
        finally:
            await cluster.close()

    with run_stub(wait) as silent, run_stub(lambda _: (200, FOUND)) as node:
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
            await cluster.search(INDEX, PAGE)  # the client makes its connections
            searches = [cluster.search(INDEX, PAGE) for _ in range(5)]
            return [*await asyncio.gather(*searches, return_exceptions=True)]
        finally:
            await cluster.close()

    with run_stub(lambda _: (200, FOUND)) as stub:
        answers = asyncio.run(search(ClusterAddress(stub.url)))
    assert [isinstance(each, Overloaded) for each in answers] == [False] * 3 + [True] * 2


def search(*answers: Answer, request: SearchRequest = PAGE) -> SearchResponse:
    """Search a node that gives these answers, one after another, the last one ever after."""
    remaining = [*answers]

    def answer(_: str) -> Answer:
        return remaining.pop(0) if len(remaining) > 1 else remaining[0]

    with run_stub(answer) as stub:
        return ask(ClusterAddress(stub.url), request)


def found(*hits: object, **fields: object) -> Answer:
    """Return an answer with these hits."""
    return 200, FOUND | {"hits": {"total": {"value": len(hits)}, "hits": [*hits]}} | fields


def bits_of(*units: int) -> str:
    """Return the text of bits."""
    number = sum(1 << unit for unit in units)
    return base64.b64encode(number.to_bytes(number.bit_length() // 8 + 1, "little")).decode()


def test_a_response_has_the_hits_the_impacts_and_the_bits_of_the_matches() -> None:
    request = SearchRequest({}, size=9, by_group=True, has_bits=True, named=2)
    hits = [{"sort": [7.0, 3], "matched_queries": {"1": 7.0}}, {"sort": [2.0, 99]}]
    response = search(
        found(*hits, aggregations={"bits": {"value": bits_of(0, 9)}}), request=request
    )
    assert response.total == 2
    assert response.scores.tolist() == [7, 2]
    assert response.ordinals.tolist() == [3, 99]
    assert response.impacts.tolist() == [[0, 0], [7, 0]]
    assert response.bits.tolist() == [1 << 9 | 1]


@pytest.mark.parametrize(
    "answer",
    [
        (200, ""),
        (200, '{"timed_out": false, "_sh'),
        (200, "<html>Welcome</html>"),
        (200, "[]"),
        (200, "{}"),
        (200, "[" * 100_000),
        (200, {"hits": "none"}),
        found(timed_out=True),
        found(_shards={"total": 3, "successful": 2}),
        found(_shards={"total": 0, "successful": 0}),
        found(hits={"total": {"value": DOCUMENTS + 1}}),
        found(hits={"total": {"value": -1}}),
        found({"sort": [7.0]}),
        found({"sort": [7.0, 3, 4]}),
        found({"sort": [7.0, DOCUMENTS]}),
        found({"sort": [7.0, -1]}),
        found({"sort": [7.5, 3]}),
        found({"sort": [0.0, 3]}),
        found({"sort": [1e30, 3]}),
        found({"sort": [7.0, 3.5]}),
        found({"sort": ["NaN", 3]}),
        found(*[{"sort": [7.0, 3]}] * 10),
        (400, {"error": {"type": "parsing_exception", "reason": "no"}}),
        (404, "<html>Not here</html>"),
        (404, {"error": "Not here"}),
        (500, []),
        (500, {"error": {"type": "x", "root_cause": ["none"]}}),
    ],
)
def test_no_response_but_a_whole_one_of_the_index_is_returned(answer: Answer) -> None:
    with pytest.raises(EngineUnavailable) as error:
        search(answer)
    assert not isinstance(error.value, IndexMissing)


@pytest.mark.parametrize(
    "answer",
    [
        (200, "<html>Welcome</html>"),
        (200, {"indices": []}),
        (200, {"indices": {"any": {}}}),
        (200, {"indices": {"any": {"status": "red"}}}),
        (200, {"indices": {}}),
        (404, "<html>Not here</html>"),
    ],
)
def test_an_index_is_whole_only_if_opensearch_says_so(answer: Answer) -> None:
    async def check(address: ClusterAddress) -> None:
        cluster = Cluster(address)
        try:
            with pytest.raises(EngineUnavailable):
                await cluster.check(INDEX.name)
        finally:
            await cluster.close()

    with run_stub(lambda _: answer) as stub:
        asyncio.run(check(ClusterAddress(stub.url)))


@pytest.mark.parametrize(
    "aggregations",
    [
        {},
        {"bits": {}},
        {"bits": {"value": 3}},
        {"bits": {"value": "no base64!"}},
        {"bits": {"value": bits_of(GROUPS)}},
        {"bits": {"value": bits_of(1000)}},
    ],
)
def test_bits_are_those_of_the_services_of_the_index(aggregations: object) -> None:
    request = SearchRequest({}, by_group=True, has_bits=True)
    with pytest.raises(EngineUnavailable):
        search(found(aggregations=aggregations), request=request)


@pytest.mark.parametrize("scores", [{"2": 1.0}, {"-1": 1.0}, {"x": 1.0}, {"0": 0.5}, {"0": 1e30}])
def test_impacts_are_those_of_the_named_clauses(scores: dict[str, float]) -> None:
    request = SearchRequest({}, size=1, named=2)
    with pytest.raises(EngineUnavailable):
        search(found({"sort": [7.0, 3], "matched_queries": scores}), request=request)


def test_an_index_is_missing_only_if_opensearch_says_so() -> None:
    with pytest.raises(IndexMissing, match="build it again"):
        search((404, {"error": {"type": "index_not_found_exception", "reason": "no such index"}}))


def test_invalid_responses_are_logged_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    async def search() -> None:
        with run_stub(lambda _: (200, "<html>")) as stub:
            cluster = Cluster(ClusterAddress(stub.url))
            try:
                for _ in range(5):
                    with pytest.raises(EngineUnavailable):
                        await cluster.search(INDEX, PAGE)
            finally:
                await cluster.close()

    with caplog.at_level(logging.ERROR, "uvicorn.error"):
        asyncio.run(search())
    assert len(caplog.records) == 1


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_search_that_a_node_cannot_answer_goes_to_the_next(status: int) -> None:
    async def search(address: ClusterAddress) -> list[int]:
        cluster = Cluster(address)
        try:
            return [(await cluster.search(INDEX, PAGE)).total for _ in range(20)]
        finally:
            await cluster.close()

    with run_stub(lambda _: (status, {})) as failing, run_stub(lambda _: (200, FOUND)) as node:
        address = ClusterAddress(f"{failing.url},{node.url}")
        assert asyncio.run(search(address)) == [7] * 20
        assert len(failing.requests) <= 1
        assert len(node.requests) == 20


def test_errors_that_every_node_has_are_not_repeated() -> None:
    with run_stub(lambda _: (400, {})) as stub:
        with pytest.raises(EngineUnavailable):
            ask(ClusterAddress(f"{stub.url},{stub.url}/other"))
        assert len(stub.requests) == 1


def test_an_error_of_all_nodes_is_reported_after_some_of_them() -> None:
    with run_stub(lambda _: (503, {})) as stub:
        with pytest.raises(EngineUnavailable, match="status 503"):
            ask(ClusterAddress(",".join(f"{stub.url}/{number}" for number in range(9))))
        assert len(stub.requests) == 1 + client.RETRIES
