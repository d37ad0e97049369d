"""Metrics and the access log."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter, defaultdict
from pathlib import Path

import httpx
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette

from service.app import ROUTES, create_app
from service.settings import Settings
from tests.support.processes import (
    REPLACED_WITHIN,
    count_ready,
    kill_worker,
    run_service,
)
from tests.support.running import Build, eventually, service

Labels = frozenset[tuple[str, str]]
Samples = dict[tuple[str, Labels], float]

REQUESTS = [
    ("GET", "/v1/services", "/v1/services", 200),
    ("HEAD", "/v1/services?limit=1", "/v1/services", 200),
    ("GET", "/v1/services?limit=0", "/v1/services", 400),
    ("POST", "/v1/services", "/v1/services", 405),
    ("PROPFIND", "/v1/services", "/v1/services", 405),
    ("GET", "/v1/services/tidewatch-example", "/v1/services/{id}", 200),
    ("GET", "/v1/services/nobody", "/v1/services/{id}", 404),
    ("GET", "/v1/search/services?q=harbour", "/v1/search/services", 200),
    ("GET", "/v1/services/search?q=harbour", "/v1/services/search", 200),
    ("GET", "/v1/services/search", "/v1/services/search", 400),
    ("GET", "/v1/ecosystem/stats", "/v1/ecosystem/stats", 200),
    ("GET", '/made/up?"} 1', "none", 404),
    ("GET", "/%0aratecard_made_up%201", "none", 404),
    ("OPTIONS", "/v1/services", "none", 204),
    ("GET", "/readyz", "/readyz", 200),
]


def scrape(client: httpx.Client) -> Samples:
    """Return every sample of `/metrics` by name and labels."""
    return samples_in(client.get("/metrics"))


def samples_in(response: httpx.Response) -> Samples:
    """Return every sample of a response of `/metrics` by name and labels."""
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert response.headers["cache-control"] == "no-store"
    samples = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }
    assert len(samples) == len([line for line in response.text.splitlines() if line[0] != "#"])
    return samples


def value(samples: Samples, name: str) -> float:
    """Return the value of a metric without labels."""
    return samples[name, frozenset()]


def requests_of(samples: Samples) -> Counter[tuple[str, int]]:
    """Return the request counts by route and status, except for requests to `/metrics`."""
    counts: Counter[tuple[str, int]] = Counter()
    for (name, labels), count in samples.items():
        if name == "ratecard_request_seconds_count":
            by_name = dict(labels)
            counts[by_name["route"], int(by_name["status"])] += int(count)
    del counts["/metrics", 200]
    return counts


def test_requests_are_counted_and_timed_by_route(sample: Path) -> None:
    sent: Counter[tuple[str, int]] = Counter()
    with run_service(sample) as server, server.client() as client:
        for times in range(1, 4):
            for method, target, route, status in REQUESTS * times:
                assert client.request(method, target).status_code == status
                sent[route, status] += 1
        samples = scrape(client)
    assert requests_of(samples) == sent
    for route, status in sent:
        buckets = defaultdict[float, float](float)
        totals = defaultdict[str, float](float)
        for (name, labels), number in samples.items():
            if {("route", route), ("status", str(status))} <= labels:
                totals[name] += number
                if "bucket" in name:
                    buckets[float(dict(labels)["le"])] += number
        ascending = [count for _, count in sorted(buckets.items())]
        assert len(ascending) > 10
        assert ascending == sorted(ascending)
        assert buckets[float("inf")] == sent[route, status]
        assert totals["ratecard_request_seconds_count"] == sent[route, status]
        assert totals["ratecard_request_seconds_sum"] > 0


def test_label_values_do_not_come_from_requests(sample: Path) -> None:
    with run_service(sample) as server, server.client() as client:
        for n in range(20):
            client.get(f"/made/up/{n}", headers={"Host": f"h{n}", "X-Request-Id": f"id{n}"})
            client.get(f"/v1/services/made-up-{n}?q=q{n}", headers={"User-Agent": f"agent{n}"})
        for method in ("DELETE", "PROPFIND", "M-SEARCH", "MADEUP"):
            client.request(method, "/v1/services")
        samples = scrape(client)
    labels = {label for _, labels in samples for label in labels if label[0] != "le"}
    routes = {("route", route.path) for route in ROUTES} | {("route", "none")}
    assert {label for label in labels if label[0] == "route"} <= routes
    assert {name for name, _ in labels} == {"route", "status", "cache"}
    assert requests_of(samples).keys() == {
        ("none", 404),
        ("/v1/services/{id}", 404),
        ("/v1/services", 405),
    }


def test_metrics_count_swaps_and_refusals_until_a_snapshot_is_repaired(
    artifacts: Path, build: Build
) -> None:
    assert build([service("a")]) == 0
    first = (artifacts / "CURRENT").read_text()
    assert build([service("b")]) == 0
    second = (artifacts / "CURRENT").read_text()
    (artifacts / "CURRENT").write_text(first)
    with run_service(artifacts) as server, server.client() as client:
        samples = scrape(client)
        assert served_snapshot(client) == first.strip()
        assert value(samples, "ratecard_snapshot_swaps_total") == 0
        assert value(samples, "ratecard_snapshot_refusals_total") == 0
        assert value(samples, "ratecard_snapshot_refused") == 0

        records = artifacts / "snapshots" / second.strip() / "records.json"
        content = records.read_bytes()
        records.write_bytes(content[::-1])
        publish(artifacts, second)
        eventually(lambda: value(scrape(client), "ratecard_snapshot_refused") == 1)
        samples = scrape(client)
        assert served_snapshot(client) == first.strip()
        assert value(samples, "ratecard_snapshot_refusals_total") == 1
        assert value(samples, "ratecard_snapshot_swaps_total") == 0
        ready = client.get("/readyz")
        assert ready.status_code == 200
        assert ready.json()["snapshot"] == first.strip()
        assert ready.json()["refused"]["code"] == "snapshot_damaged"
        assert client.get("/v1/services/a").status_code == 200
        assert f"still serving {first.strip()}: {records} is not what was published" in server.log

        records.write_bytes(content)
        eventually(lambda: value(scrape(client), "ratecard_snapshot_refused") == 0)
        samples = scrape(client)
        assert served_snapshot(client) == second.strip()
        assert value(samples, "ratecard_snapshot_refusals_total") == 1
        assert value(samples, "ratecard_snapshot_swaps_total") == 1
        assert "refused" not in client.get("/readyz").json()
        assert client.get("/v1/services/b").status_code == 200
        assert f"serving snapshot {second.strip()} instead of {first.strip()}: 1 s" in server.log


def test_metrics_have_the_build_time_of_the_snapshot(artifacts: Path, build: Build) -> None:
    assert build([service("a")]) == 0
    (manifest,) = (artifacts / "snapshots").glob("*/manifest.json")
    fields = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(fields | {"built_at": "2001-09-09T01:46:40Z"}))
    with run_service(artifacts) as server, server.client() as client:
        samples = scrape(client)
    assert value(samples, "ratecard_snapshot_built_timestamp_seconds") == 10**9


def test_metrics_are_served_without_a_snapshot(artifacts: Path, build: Build) -> None:
    with run_service(artifacts) as server, server.client() as client:
        assert client.get("/v1/services").status_code == 503
        samples = scrape(client)
        assert requests_of(samples) == {("/v1/services", 503): 1}
        assert value(samples, "ratecard_snapshot_built_timestamp_seconds") == 0
        assert build([service("a")]) == 0
        eventually(lambda: client.get("/readyz").status_code == 200)
        assert value(scrape(client), "ratecard_snapshot_built_timestamp_seconds") > 0


def test_metrics_add_up_all_workers_also_killed_ones(sample: Path) -> None:
    sent: Counter[tuple[str, int]] = Counter()
    with run_service(sample, workers=2) as server, server.client() as client:

        def shared_files() -> set[str]:
            return {path.name for path in server.folder.glob("ratecard-*/*")}

        def send(number: int) -> None:
            for n in range(number):
                known = n % 2 == 0
                client.get(f"/v1/services/{'tidewatch-example' if known else 'nobody'}")
                sent["/v1/services/{id}", 200 if known else 404] += 1

        send(40)
        samples, files = scrape(client), shared_files()
        assert requests_of(samples) == sent
        for _ in range(2):
            ready = count_ready(server)  # more than 2 where uvicorn replaced a slow worker
            for worker in server.workers:
                kill_worker(server, worker)
            eventually(lambda: count_ready(server) >= ready + 2, REPLACED_WITHIN)  # noqa: B023  # called at once
            assert requests_of(scrape(client)) == sent
            send(10)
            samples = scrape(client)
            assert requests_of(samples) == sent
            assert value(samples, "ratecard_requests_in_flight") == 1
            assert value(samples, "ratecard_snapshot_built_timestamp_seconds") > 0
            assert shared_files() == files


def test_a_worker_that_was_removed_has_no_gauges(sample: Path) -> None:
    with run_service(sample, workers=2) as server, server.client() as client:

        def has_gauges() -> list[str]:
            assert value(scrape(client), "ratecard_snapshot_built_timestamp_seconds") > 0
            return sorted(path.name for path in server.folder.glob("ratecard-*/gauge_livemin_*"))

        assert has_gauges() == ["gauge_livemin_0.db", "gauge_livemin_1.db"]
        server.send_signal(signal.SIGTTOU)
        eventually(lambda: len(server.workers) == 1)
        eventually(lambda: len(has_gauges()) == 1)


def test_applications_of_one_process_count_apart_and_leave_its_registry_alone(
    sample: Path,
) -> None:
    async def count_requests(app: Starlette, number: int) -> float:
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://a.example") as client,
        ):
            for _ in range(number):
                assert (await client.get("/healthz")).status_code == 200
            return requests_of(samples_in(await client.get("/metrics")))["/healthz", 200]

    before = {metric.name for metric in REGISTRY.collect()}
    one, other = (create_app(Settings(artifacts=str(sample))) for _ in range(2))
    assert asyncio.run(count_requests(one, 3)) == 3
    assert asyncio.run(count_requests(other, 5)) == 5
    assert asyncio.run(count_requests(one, 1)) == 4
    assert {metric.name for metric in REGISTRY.collect()} == before


def test_the_access_log_has_a_line_of_json_for_each_request(sample: Path) -> None:
    with run_service(sample, "--log-requests") as server, server.client() as client:
        snapshot = (sample / "CURRENT").read_text().strip()
        expected: list[tuple[str | int, ...]] = []
        for method, target, route, status in REQUESTS:
            headers = {"Accept-Encoding": "gzip", "X-Request-Id": f"gateway-{len(expected)}"}
            with client.stream(method, target, headers=headers) as response:
                size = sum(map(len, response.iter_raw()))
                request_id = response.headers["x-request-id"]
                sent = response.request.url.raw_path.decode()
            assert request_id == headers["X-Request-Id"]
            expected.append((request_id, method, sent, route, status, size, snapshot))
        eventually(lambda: len(server.requests) == len(expected))
        lines = [json.loads(line) for line in server.requests]
        keys = ("id", "method", "target", "route", "status", "bytes", "snapshot")
        assert [tuple(line[key] for key in keys) for line in lines] == expected
        assert all(line["client"] == "127.0.0.1" and line["ms"] > 0 for line in lines)
        assert [line["time"] for line in lines] == sorted(line["time"] for line in lines)
        assert lines[0].keys() == {*keys, "client", "ms", "time"}


def test_without_the_option_no_request_is_logged(sample: Path) -> None:
    with run_service(sample) as server, server.client() as client:
        assert client.get("/v1/services").status_code == 200
        assert client.get("/healthz").headers["x-request-id"]
        server.send_signal(signal.SIGTERM)
        assert server.wait_for_exit() == 0
        assert server.requests == []
        assert "/healthz" not in server.log


def served_snapshot(client: httpx.Client) -> str:
    """Return the id of the snapshot that is served."""
    return client.get("/metrics").headers["ratecard-snapshot"]


def publish(artifacts: Path, snapshot: str) -> None:
    """Point CURRENT at a snapshot that exists, by renaming."""
    (artifacts / "NEXT").write_text(snapshot)
    (artifacts / "NEXT").replace(artifacts / "CURRENT")
