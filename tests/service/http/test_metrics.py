"""What an operator sees of the service: its metrics, and a line for each request."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections import Counter
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from service.app import ROUTES
from tests.support.processes import IDENTITY, Running, kill_worker, running, serving
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
    """Every sample that `/metrics` has, by name and labels."""
    response = client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert response.headers["cache-control"] == "no-store"
    found = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }
    assert len(found) == len([line for line in response.text.splitlines() if line[0] != "#"])
    return found


def value(samples: Samples, name: str) -> float:
    """The value of a metric without labels."""
    return samples[name, frozenset()]


def requests_of(samples: Samples) -> Counter[tuple[str, int]]:
    """How many requests were counted by route and status, but for those of the metrics."""
    counts: Counter[tuple[str, int]] = Counter()
    for (name, labels), count in samples.items():
        if name == "ratecard_requests_total":
            of = dict(labels)
            counts[of["route"], int(of["status"])] += int(count)
    del counts["/metrics", 200]
    return counts


def test_every_request_is_counted_by_route_and_status_and_timed(sample: Path) -> None:
    sent: Counter[tuple[str, int]] = Counter()
    with running(sample) as started, started.client() as client:
        for times in range(1, 4):
            for method, target, route, status in REQUESTS * times:
                assert client.request(method, target).status_code == status
                sent[route, status] += 1
        samples = scrape(client)
    assert requests_of(samples) == sent
    for route in {route for route, _ in sent}:
        timed = sum(count for (of, _), count in sent.items() if of == route)
        own = frozenset({("route", route)})
        buckets = {
            float(dict(labels)["le"]): count
            for (name, labels), count in samples.items()
            if name == "ratecard_request_seconds_bucket" and own <= labels
        }
        ascending = [count for _, count in sorted(buckets.items())]
        assert len(ascending) > 10
        assert ascending == sorted(ascending)
        assert buckets[float("inf")] == samples["ratecard_request_seconds_count", own] == timed
        assert samples["ratecard_request_seconds_sum", own] > 0


def test_no_label_is_made_of_what_a_client_sends(sample: Path) -> None:
    with running(sample) as started, started.client() as client:
        for n in range(20):
            client.get(f"/made/up/{n}", headers={"Host": f"h{n}", "X-Request-Id": f"id{n}"})
            client.get(f"/v1/services/made-up-{n}?q=q{n}", headers={"User-Agent": f"agent{n}"})
        for method in ("DELETE", "PROPFIND", "M-SEARCH", "MADEUP"):
            client.request(method, "/v1/services")
        samples = scrape(client)
    labels = {label for _, labels in samples for label in labels if label[0] != "le"}
    known = {("route", route.path) for route in ROUTES} | {("route", "none")}
    assert {label for label in labels if label[0] == "route"} <= known
    assert {name for name, _ in labels} == {"route", "status", "snapshot"}
    assert requests_of(samples).keys() == {
        ("none", 404),
        ("/v1/services/{id}", 404),
        ("/v1/services", 405),
    }


def test_swaps_and_refusals_are_seen_until_a_snapshot_is_repaired(
    artifacts: Path, build: Build
) -> None:
    assert build([service("a")]) == 0
    first = (artifacts / "CURRENT").read_text()
    assert build([service("b")]) == 0
    second = (artifacts / "CURRENT").read_text()
    (artifacts / "CURRENT").write_text(first)
    with running(artifacts) as started, started.client() as client:
        samples = scrape(client)
        assert served(samples) == first.strip()
        assert value(samples, "ratecard_snapshot_swaps_total") == 0
        assert value(samples, "ratecard_snapshot_refusals_total") == 0
        assert value(samples, "ratecard_snapshot_refused") == 0

        records = artifacts / "snapshots" / second.strip() / "records.json"
        whole = records.read_bytes()
        records.write_bytes(whole[::-1])
        publish(artifacts, second)
        eventually(lambda: value(scrape(client), "ratecard_snapshot_refused") == 1)
        samples = scrape(client)
        assert served(samples) == first.strip()
        assert value(samples, "ratecard_snapshot_refusals_total") == 1
        assert value(samples, "ratecard_snapshot_swaps_total") == 0
        ready = client.get("/readyz")
        assert ready.status_code == 200
        assert ready.json()["snapshot"] == first.strip()
        assert ready.json()["refused"]["code"] == "snapshot_damaged"
        assert client.get("/v1/services/a").status_code == 200
        assert f"still serving {first.strip()}: {records} is not what was published" in started.log

        records.write_bytes(whole)
        eventually(lambda: value(scrape(client), "ratecard_snapshot_refused") == 0)
        samples = scrape(client)
        assert served(samples) == second.strip()
        assert value(samples, "ratecard_snapshot_refusals_total") == 1
        assert value(samples, "ratecard_snapshot_swaps_total") == 1
        assert "refused" not in client.get("/readyz").json()
        assert client.get("/v1/services/b").status_code == 200
        assert f"serving snapshot {second.strip()} instead of {first.strip()}: 1 s" in started.log


def test_the_age_of_the_snapshot_is_seen(artifacts: Path, build: Build) -> None:
    assert build([service("a")]) == 0
    (manifest,) = (artifacts / "snapshots").glob("*/manifest.json")
    described = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(described | {"built_at": "2001-09-09T01:46:40Z"}))
    with running(artifacts) as started, started.client() as client:
        samples = scrape(client)
    assert value(samples, "ratecard_snapshot_built_timestamp_seconds") == 10**9
    years = value(samples, "ratecard_snapshot_age_seconds") / 31_557_600
    assert 20 < years < 100


def test_there_are_metrics_without_a_snapshot(artifacts: Path, build: Build) -> None:
    with running(artifacts) as started, started.client() as client:
        assert client.get("/v1/services").status_code == 503
        samples = scrape(client)
        assert requests_of(samples) == {("/v1/services", 503): 1}
        assert "ratecard_snapshot_info" not in {name for name, _ in samples}
        assert value(samples, "ratecard_snapshot_built_timestamp_seconds") == 0
        assert build([service("a")]) == 0
        eventually(lambda: client.get("/readyz").status_code == 200)
        assert served(scrape(client)) == (artifacts / "CURRENT").read_text().strip()


def test_two_workers_count_together_and_what_one_counted_outlives_it(
    artifacts: Path, build: Build
) -> None:
    assert build([service(f"s{n}", padding="x" * 100_000) for n in range(200)]) == 0
    with running(artifacts, workers=2) as started, started.client() as client:
        sent: Counter[tuple[str, int]] = Counter()
        for n in range(40):
            client.get(f"/v1/services/s{n * 10}", headers=IDENTITY)
            sent["/v1/services/{id}", 200 if n < 20 else 404] += 1
        eventually(lambda: requests_of(scrape(client)) == sent)
        with stuck(started):
            eventually(lambda: value(scrape(client), "ratecard_requests_in_flight") == 2)
            sent["/v1/services", 200] += 1
            eventually(lambda: everybody_tells(started, sent))
            for worker in started.workers:
                kill_worker(started, worker)
            eventually(lambda: serving(started) == 4)
            samples = scrape(client)
        assert value(samples, "ratecard_requests_in_flight") == 1
        assert requests_of(samples) == sent
        assert client.get("/v1/services/s1", headers=IDENTITY).status_code == 200
        sent["/v1/services/{id}", 200] += 1
        eventually(lambda: requests_of(scrape(client)) == sent)
        with stuck(started):  # until it is given up
            eventually(lambda: value(scrape(client), "ratecard_requests_in_flight") == 2)
        eventually(lambda: value(scrape(client), "ratecard_requests_in_flight") == 1)


def test_each_request_is_a_line_of_json_when_asked_for(sample: Path) -> None:
    with running(sample, "--log-requests") as started, started.client() as client:
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
        eventually(lambda: len(started.requests) == len(expected))
        lines = [json.loads(line) for line in started.requests]
        keys = ("id", "method", "target", "route", "status", "bytes", "snapshot")
        assert [tuple(line[key] for key in keys) for line in lines] == expected
        assert all(line["client"] == "127.0.0.1" and line["ms"] > 0 for line in lines)
        assert [line["time"] for line in lines] == sorted(line["time"] for line in lines)
        assert lines[0].keys() == {*keys, "client", "ms", "time"}


def test_requests_are_logged_only_when_asked_for(sample: Path) -> None:
    with running(sample) as started, started.client() as client:
        assert client.get("/v1/services").status_code == 200
        assert client.get("/healthz").headers["x-request-id"]
        os.kill(started.process.pid, signal.SIGTERM)
        assert started.ended() == 0
        assert started.requests == []
        assert "/healthz" not in started.log


def served(samples: Samples) -> str:
    """The id of the snapshot that the metrics name."""
    (snapshot,) = [
        dict(labels)["snapshot"] for name, labels in samples if name == "ratecard_snapshot_info"
    ]
    return snapshot


def publish(artifacts: Path, snapshot: str) -> None:
    """What is left of publishing once a snapshot is there."""
    (artifacts / "NEXT").write_text(snapshot)
    (artifacts / "NEXT").replace(artifacts / "CURRENT")


def everybody_tells(started: Running, sent: Counter[tuple[str, int]]) -> bool:
    """Whether connections that may reach either worker are told the same."""
    for _ in range(8):
        with started.client() as client:
            if requests_of(scrape(client)) != sent:
                return False
    return True


def stuck(started: Running) -> socket.socket:
    """Two requests on one connection: the second waits until somebody reads the first's 20 MB."""
    connection = started.connect()
    connection.sendall(b"GET /v1/services?limit=200 HTTP/1.1\r\nHost: a\r\n\r\n" * 2)
    assert connection.recv(1, socket.MSG_PEEK) == b"H"
    return connection
