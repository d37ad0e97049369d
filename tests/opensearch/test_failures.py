"""Failures of the cluster: no answer is late or in part, and what needs no cluster is answered."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from indexer.__main__ import main
from tests.opensearch.conftest import EngineOptions, options_of
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.stub import Answer, Stub, run_stub
from tests.support.processes import ServiceProcess, run_service
from tests.support.running import Json, eventually, serve, service, write_lines
from tests.support.sources.x402 import resource

RECORDS = [service(f"s{number}", description="tides") for number in range(60)]
QUICK = ("--no-semantic", "--no-downloads", "--quiet")
QUERY = "/v1/search/services?q=tides"
PASSWORD = "hush-hush"  # noqa: S105  # of nothing
NOTHING: Answer = (200, {})


@pytest.fixture(scope="module")
def artifacts(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The catalogue in the cluster."""
    return publish(tmp_path_factory.mktemp("failures"), options_of(cluster, "failures"))


def publish(folder: Path, options: EngineOptions, *more: str, sources: Sequence[str] = ()) -> Path:
    """Build the catalogue."""
    source, out = write_lines(folder / "source.jsonl", RECORDS), folder / "artifacts"
    assert main(["build", source, *sources, "--out", str(out), *QUICK, *options.build, *more]) == 0
    return out


def error_of(response: httpx.Response) -> str:
    """Check an answer of a service whose cluster fails, and return the code."""
    assert response.status_code == 503, response.text
    assert int(response.headers["retry-after"]) > 0
    assert "ratecard-snapshot" in response.headers
    code: str = response.json()["error"]["code"]
    return code


def is_whole(response: httpx.Response) -> bool:
    """Return whether a search was answered; an answer must be whole."""
    if response.status_code == 200:
        assert response.json()["total"] == len(RECORDS)
        return True
    assert error_of(response) == "engine_unavailable"
    return False


def test_a_killed_node_costs_no_results(cluster: Cluster, artifacts: Path) -> None:
    cluster.wait_for(3)
    options = (*options_of(cluster, "failures").serve[:4], "--cache-bytes", "0")
    with serve(artifacts, *options) as client:
        assert is_whole(client.get(QUERY))
        try:
            cluster.kill(0)
            for _ in range(20):
                is_whole(client.get(QUERY))
            eventually(lambda: all(is_whole(client.get(QUERY)) for _ in range(6)), 90)
            eventually(lambda: client.get("/readyz").status_code == 200, 90)
        finally:
            cluster.start(0)
            cluster.wait_for(3)
        assert is_whole(client.get(QUERY))


def test_without_a_shard_no_part_is_passed_off_as_whole(
    cluster: Cluster, tmp_path: Path, prefix: str, options: EngineOptions
) -> None:
    cluster.wait_for(3)
    spread = ("--opensearch-replicas", "0", "--opensearch-shards", "3")
    artifacts = publish(tmp_path, options, *spread)
    quick = ("--opensearch-timeout", "5", "--cache-bytes", "0")
    with serve(artifacts, *options.serve, *quick) as client:
        assert is_whole(client.get(QUERY))
        with httpx.Client(base_url=cluster.urls[0], timeout=60) as api:
            shards = api.get(f"/_cat/shards/{prefix}-*?format=json").json()
        node = int(shards[0]["node"].removeprefix("node"))
        try:
            cluster.kill(node)
            eventually(lambda: not is_whole(client.get(QUERY)), 90)
            assert error_of(client.get("/readyz")) == "engine_unavailable"
            assert client.get("/v1/services").json()["total"] == len(RECORDS)
            assert client.get("/v1/services/s7").status_code == 200
            with serve(artifacts, *options.serve, *quick) as fresh:
                assert fresh.get("/v1/services").json()["total"] == len(RECORDS)
        finally:
            cluster.start(node)
            cluster.wait_for(3)
        eventually(lambda: is_whole(client.get(QUERY)))
        assert client.get("/readyz").status_code == 200


def test_an_index_that_is_loaded_again_is_never_searched_in_part(
    cluster: Cluster, tmp_path: Path, prefix: str, options: EngineOptions
) -> None:
    artifacts = publish(tmp_path, options)
    snapshot = (artifacts / "CURRENT").read_text().strip()
    with (
        httpx.Client(base_url=cluster.urls[0], timeout=60) as api,
        serve(artifacts, *options.serve, "--cache-bytes", "0") as client,
        ThreadPoolExecutor(1) as pool,
    ):
        path = f"/{prefix}-{snapshot}/_doc/0?refresh=true"
        assert api.delete(path).status_code == 200
        again = pool.submit(publish, tmp_path, options)
        while not again.done():
            response = client.get(QUERY)
            if response.status_code == 200:
                assert response.json()["total"] in (len(RECORDS) - 1, len(RECORDS))
        again.result()
        assert is_whole(client.get(QUERY))


def test_a_service_starts_and_lists_while_the_cluster_is_away(
    tmp_path: Path, options: EngineOptions
) -> None:
    listed = resource("https://feed.example/1") | {"description": "tides"}
    artifacts = publish(tmp_path, options, sources=[write_lines(tmp_path / "feed.jsonl", [listed])])
    away = ("--opensearch-url", "http://127.0.0.1:1")
    with serve(artifacts, "--mcp", *away) as client:
        assert error_of(client.get(QUERY)) == "engine_unavailable"
        assert error_of(client.get("/v1/search/endpoints?q=tides")) == "engine_unavailable"
        assert client.get("/discovery/search?query=tides").status_code == 503
        assert error_of(client.get("/readyz")) == "engine_unavailable"
        assert client.get("/healthz").status_code == 200
        assert client.get("/v1/services").json()["total"] == len(RECORDS) + 1
        page = client.get("/?q=tides", headers={"Accept": "text/html"})
        assert page.status_code == 503
        assert "OpenSearch" in page.text


def test_an_index_that_someone_replaced_is_refused(
    cluster: Cluster, tmp_path: Path, prefix: str, options: EngineOptions
) -> None:
    artifacts = publish(tmp_path, options)
    snapshot = (artifacts / "CURRENT").read_text().strip()
    name = f"{prefix}-{snapshot}"
    with (
        httpx.Client(base_url=cluster.urls[0], timeout=60) as api,
        run_service(artifacts, "--cache-bytes", "0", *options.serve) as server,
        server.client() as client,
    ):
        assert api.delete(f"/{name}").status_code == 200
        assert error_of(client.get(QUERY)) == "index_missing"
        assert error_of(client.get("/readyz")) == "index_missing"
        assert api.put(f"/{name}/_doc/0?refresh=true", json={"ordinal": "0"}).status_code == 201
        assert not is_whole(client.get(QUERY))


def test_a_snapshot_that_was_not_loaded_lists_and_does_not_search(
    tmp_path: Path, options: EngineOptions
) -> None:
    artifacts = publish(tmp_path, EngineOptions("embedded"))
    with serve(artifacts, *options.serve) as client:
        assert error_of(client.get(QUERY)) == "index_missing"
        assert error_of(client.get("/readyz")) == "index_missing"
        assert client.get("/v1/services").json()["total"] == len(RECORDS)
    with serve(publish(tmp_path, options)) as client:  # the files are those of any snapshot
        assert is_whole(client.get(QUERY))


@pytest.fixture
def stub() -> Iterator[Stub]:
    """A cluster that answers nothing of use, until a test says what it answers."""
    with run_stub(lambda _: NOTHING) as stub:
        yield stub


def served_by(stub: Stub, timeout: str = "30") -> tuple[str, ...]:
    url = stub.url.replace("://", f"://reader:{PASSWORD}@")
    return ("--opensearch-url", url, "--opensearch-timeout", timeout, "--cache-bytes", "0")


def hit(number: int) -> Json:
    """Return a match, whose best document has a number."""
    own = {"hits": {"hits": [{"_score": 2.0, "sort": [2.0, number]}]}}
    return {"_score": 2.0, "sort": [2.0, 0], "inner_hits": {"documents": own}}


def found(**fields: Any) -> Answer:
    """Return an answer with one match."""
    shards = {"total": 3, "successful": 3}
    counted = {"matches": {"matches": {"doc_count": 1}}}
    whole = {"timed_out": False, "_shards": shards, "hits": {"hits": [hit(0)]}}
    return 200, whole | {"aggregations": counted} | fields


@pytest.mark.parametrize(
    "answer",
    [
        found(timed_out=True),
        found(_shards={"total": 3, "successful": 2}),
        found(hits={"hits": [{"sort": [2.0, len(RECORDS)]}]}),
        found(hits={"hits": [hit(len(RECORDS))]}),
        found(hits={}),
        found(aggregations={}),
        (401, {}),
        (403, {"error": {"type": "cluster_block_exception", "reason": "blocked"}}),
        (429, {"error": {"type": "rejected", "reason": "full"}}),
        (503, {"error": {"type": "search_phase_execution_exception", "reason": "no shards"}}),
    ],
)
def test_answers_in_part_and_errors_are_503(artifacts: Path, stub: Stub, answer: Answer) -> None:
    stub.answer = lambda _: answer
    with serve(artifacts, *served_by(stub)) as client:
        assert error_of(client.get(QUERY)) == "engine_unavailable"
        stub.answer = lambda _: found()
        assert client.get(QUERY).json()["total"] == 1


def test_a_late_answer_is_503_within_the_timeout(artifacts: Path, stub: Stub) -> None:
    released = threading.Event()

    def wait(_: str) -> Answer:
        released.wait(30)
        return found()

    with serve(artifacts, *served_by(stub, timeout="0.5")) as client:
        stub.answer = wait
        try:
            response = client.get(QUERY)
            assert error_of(response) == "engine_unavailable"
            assert "did not answer within 0.5 seconds" in response.json()["error"]["message"]
            assert client.get("/v1/services").status_code == 200
        finally:
            released.set()


def test_connections_are_bounded(artifacts: Path, stub: Stub) -> None:
    released = threading.Event()

    def wait(_: str) -> Answer:
        released.wait(30)
        return found()

    with serve(artifacts, *served_by(stub)) as client, ThreadPoolExecutor(60) as pool:
        stub.answer = wait
        limits = httpx.Limits(max_connections=60)
        with httpx.Client(base_url=client.base_url, limits=limits, timeout=60) as many:
            answers = [pool.submit(many.get, f"{QUERY}&limit={n + 1}") for n in range(60)]
            with httpx.Client(base_url=client.base_url, timeout=30) as other:
                eventually(lambda: in_flight(other) > 60)
            eventually(lambda: stub.running == 32)
            released.set()
            assert {answer.result().status_code for answer in answers} == {200}
    assert stub.most == 32


def in_flight(client: httpx.Client) -> float:
    """Return how many requests the service answers, that for its metrics included."""
    lines = client.get("/metrics").text.splitlines()
    (line,) = [each for each in lines if each.startswith("ratecard_requests_in_flight ")]
    return float(line.split()[1])


def test_credentials_are_sent_and_never_shown(
    artifacts: Path, stub: Stub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stub.answer = lambda _: (401, {"error": {"type": "security", "reason": "who?"}})
    with run_service(artifacts, *served_by(stub)) as server:
        shown = show_all(server)
    assert "refuses the credentials" in shown
    assert PASSWORD not in shown
    assert len(set(stub.authorizations)) == 1
    assert stub.authorizations[0].startswith("Basic ")
    source = write_lines(tmp_path / "source.jsonl", RECORDS)
    out = ["--out", str(tmp_path / "other"), *QUICK]
    assert main(["build", source, *out, *served_by(stub)[:2]]) == 1
    printed = "".join(capsys.readouterr())
    assert "refuses the credentials" in printed
    assert PASSWORD not in printed


def show_all(server: ServiceProcess) -> str:
    """Return what a service whose cluster refuses it tells clients and its log."""
    with server.client() as client:
        texts = [client.get(path).text for path in (QUERY, "/readyz", "/metrics", "/openapi.json")]
    return "\n".join([*texts, server.log])


def test_the_help_shows_no_password(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from service.__main__ import main as serve_main  # noqa: PLC0415  # reads the environment

    monkeypatch.setenv("RATECARD_OPENSEARCH_URL", f"https://reader:{PASSWORD}@search.example:9200")
    for command in (serve_main, main):
        with pytest.raises(SystemExit):
            command(["--help"] if command is serve_main else ["build", "--help"])
        assert PASSWORD not in capsys.readouterr().out
