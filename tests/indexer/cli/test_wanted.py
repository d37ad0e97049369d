"""`wanted` on the command line."""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexer.__main__ import main
from indexer.text import describe_encoding
from service.app import create_app
from service.settings import Settings
from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.support.running import Build, Json, in_process, service

NONSENSE = "quantum zebra grooming"
MET = "weather forecast"
PATHS = [
    ("/", "/?q={}"),
    ("/endpoints", "/endpoints?q={}&category=Data"),
    ("/v1/search/services", "/v1/search/services?limit=1&q={}&offset=0"),
    ("/v1/services/search", "/v1/services/search?q={}"),
    ("/v1/search/endpoints", "/api/v1/search/endpoints?q={}"),
    ("/discovery/search", "/discovery/search?query={}&q=other"),
    ("/v2/x402/discovery/search", "/v2/x402/discovery/search?query={}"),
    ("/ard/search", "/ard/search"),
    ("/mcp", "/mcp"),
]
"""Routes of searches with their targets; the last two have bodies."""


def entry(query: str = NONSENSE, client: str = "192.0.2.1", number: int = 0, **fields: Any) -> Json:
    """Return a line of the access log."""
    route, target = PATHS[number % len(PATHS)]
    known: Json = {"client": client, "method": "GET", "target": target.format(quote(query))}
    if "{}" not in target:
        known |= {"method": "POST", "query": query}
    known |= {"time": "2026-11-28T00:00:00.000Z", "id": "a-1", "bytes": 9, "ms": 0.1}
    return known | {"route": route, "status": 200, "snapshot": "x"} | fields


def entries(query: str, clients: int, start: int = 0) -> list[Json]:
    """Return a line of each of several clients."""
    return [entry(query, f"192.0.2.{n}", n) for n in range(start, start + clients)]


def write(path: Path, lines: list[Any]) -> str:
    """Write lines of JSON, or of bytes, to a log, compressed if its name says so."""
    text = b"".join(
        each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n" for each in lines
    )
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return str(path)


def run(artifacts: Path, *arguments: str) -> int:
    return main(["wanted", *arguments, "--artifacts", str(artifacts)])


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "access.log"


def test_a_query_of_enough_clients_that_nothing_fits_is_written(
    sample: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = entries(NONSENSE, 12) + entries(MET, 20) + entries("zebra lessons", 9)
    assert run(sample, write(log, lines + entries("knitting lessons", 14))) == 0
    output, note = capsys.readouterr()
    first, second = map(json.loads, output.splitlines())
    assert list(first) == ["query", "clients", "requests", "fit", "first"]
    assert (first["query"], first["clients"]) == ("knitting lessons", 14)
    assert (second["query"], second["clients"], second["requests"]) == (NONSENSE, 12, 12)
    hits = open_snapshot(sample).search(NONSENSE, limit=1)
    assert [second["fit"], second["first"]] == [hits.fit, hits.ids[0] if hits.ids else None]
    assert second["fit"] < 1
    assert note == (
        "55 search requests of 20 clients; queries of 10 clients or more: 3, of which 1 fit; "
        "left out 0 of 55 lines, which are not of the log of RATECARD_LOG_REQUESTS\n"
    )


@pytest.fixture(scope="module")
def snapshot(sample: Path) -> Snapshot:
    return open_snapshot(sample)


SPELLINGS = {
    NONSENSE: (NONSENSE, f" {NONSENSE.upper()}\t", "quantum\u00a0 zebra\n\u200bgrooming"),
    "café zürich zzz": ("café zürich zzz", "CAFE\u0301 zu\u0308rich ZZZ"),
    "grooming zebra quantum": ("grooming zebra quantum",),
    MET: (MET, "Weather  Forecast"),
    "ocr": ("ocr", "ＯＣＲ"),
    "🦓🦓": ("🦓🦓",),
}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_query_is_written_if_and_only_if_it_does_not_fit_and_has_enough_clients(
    snapshot: Snapshot, tmp_path: Path, data: st.DataObject
) -> None:
    drawn = st.tuples(
        st.sampled_from([*SPELLINGS]), st.integers(0, 5), st.integers(0, 2), st.integers(0, 8)
    )
    searches = data.draw(st.lists(drawn, max_size=60))
    at_least = data.draw(st.integers(2, 4))
    clients, requests, lines = defaultdict[str, set[int]](set), defaultdict[str, int](int), []
    for query, client, spelling, number in searches:
        clients[query].add(client)
        requests[query] += 1
        spellings = SPELLINGS[query]
        lines.append(
            entry(spellings[spelling % len(spellings)], f"2001:db8:0:{client}::{number}", number)
        )
    lines += data.draw(
        st.lists(
            st.one_of(
                st.binary(max_size=20)
                .map(lambda text: text + b"\n")
                .filter(lambda line: not describe_encoding(line)),  # a file of UTF-16 is refused
                st.just(entry(NONSENSE, "a", status=404)),
                st.just(entry(NONSENSE, "b", route="/v1/services/{id}")),
            ),
            max_size=5,
        )
    )
    lines = data.draw(st.permutations(lines))
    cut = data.draw(st.integers(0, len(lines)))
    logs = [
        write(tmp_path / "access.log", [*lines[:cut], b""]),
        write(tmp_path / "access.log.1.gz", lines[cut:]),
    ]
    expected = []
    for query, own in clients.items():
        hits = snapshot.search(query)
        if len(own) >= at_least and (not hits.total or (hits.fit is not None and hits.fit < 1)):
            expected.append((-len(own), -requests[query], query))
    output, status = captured(snapshot.folder.parents[1], *logs, "--at-least", str(at_least))
    rows = [json.loads(line) for line in output.splitlines()]
    assert [(-row["clients"], -row["requests"], row["query"]) for row in rows] == sorted(expected)
    assert status == (len({client for _, client, _, _ in searches}) == 1)


def captured(artifacts: Path, *arguments: str) -> tuple[str, int]:
    """Return what a run prints to standard output, and its status."""
    buffer = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", buffer)
        status = run(artifacts, *arguments)
        buffer.flush()
    assert isinstance(buffer.buffer, io.BytesIO)
    return buffer.buffer.getvalue().decode(), status


def test_a_query_is_asked_again_as_clients_spelt_it(
    sample: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Identifiers are cut at capitals, which the query of the answer does not have."""
    lines = entries("weatherForecast", 10) + entries("WeatherForecast", 2)
    assert run(sample, write(log, lines + entries("quantumZebra Grooming", 10))) == 0
    assert json.loads(capsys.readouterr().out)["query"] == "quantumzebra grooming"


def test_only_answered_first_pages_count(
    sample: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = entries(NONSENSE, 2)
    others = [
        entry(NONSENSE, "192.0.2.3", status=503),
        entry(NONSENSE, "192.0.2.3", route="/services/{id}"),
        entry(NONSENSE, "192.0.2.3", route="none"),
        entry(NONSENSE, "192.0.2.3", method="HEAD"),
        *(
            entry("", "192.0.2.3", n, target=f"{target.format(quote(NONSENSE))}&{page}")
            for n, (_, target) in enumerate(PATHS)
            for page in ["offset=24" if n in (0, 1, 3, 4) else "cursor=abc"]
            if n not in (2, 7, 8)
        ),
        entry("", "192.0.2.3", 7),
        entry("", "192.0.2.3", 8, target=f"/mcp?{urlencode({'q': NONSENSE})}"),
        entry("  ", "192.0.2.3"),
    ]
    path = write(log, kept + others)
    assert run(sample, path, "--at-least", "2") == 0
    output, note = capsys.readouterr()
    assert json.loads(output)["clients"] == 2
    assert note.startswith(
        "2 search requests of 2 clients; queries of 2 clients or more: 1, of which 0 fit"
    )
    assert run(sample, path, "--at-least", "3") == 0
    assert capsys.readouterr().out == ""


def test_queries_of_each_surface_of_the_service_are_in_its_log(
    sample: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
    app = create_app(
        Settings(artifacts=str(sample), log_requests=True, mcp=True, mcp_hosts="a.example")
    )
    words = {}
    with in_process(app) as client:
        for number, (route, target) in enumerate(PATHS[:7]):
            words[route] = "🦓" * (number + 1)
            path = target.removeprefix("/api").format(quote(words[route]))
            assert client.get(path).status_code == 200
        words["/ard/search"] = "🦓 & 🐕"
        query = {"query": {"text": words["/ard/search"]}}
        assert client.post("/ard/search", json=query).status_code == 200
        for tool in ("search_endpoints", "search_services"):
            words[tool] = "🐕" * len(words)
            call_tool(client, tool, {"query": words[tool]})
            call_tool(client, tool, {"query": "🐕 🦓", "cursor": "none"})
        call_tool(client, "search_services", {})
    app.state.context.access_log.flush()
    lines = capfd.readouterr().out.splitlines()
    log = tmp_path / "access.log"
    log.write_text("\n".join(lines + [line.replace("127.0.0.1", "192.0.2.7") for line in lines]))
    output, _ = captured(sample, str(log), "--at-least", "2")
    assert {json.loads(line)["query"] for line in output.splitlines()} == {*words.values()}


def call_tool(client: Any, name: str, arguments: Json) -> None:
    from tests.support.clients.mcp import headers_of, message_of  # noqa: PLC0415  # needs the extra

    message = message_of("stateless", "tools/call", name=name, arguments=arguments)
    headers = headers_of("stateless", "tools/call", name)
    assert client.post("/mcp", json=message, headers=headers).status_code == 200


def test_bytes_that_a_client_did_not_encode_are_the_query_that_was_answered(
    sample: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    app = create_app(Settings(artifacts=str(sample), log_requests=True))

    async def send_raw(scope: Any, receive: Any, send: Any) -> None:
        raw = scope["query_string"].replace(b"xx", "é\\".encode())
        await app({**scope, "query_string": raw}, receive, send)

    with in_process(send_raw) as client:
        assert client.get("/v1/search/services?q=zxxbra+%26%C3%BC").status_code == 200
    app.state.context.access_log.flush()
    line = capfd.readouterr().out
    assert json.loads(line)["target"] == "/v1/search/services?q=z%C3%A9%5Cbra+%26%C3%BC"
    log = tmp_path / "access.log"
    log.write_text(line + line.replace("127.0.0.1", "192.0.2.7"))
    output, _ = captured(sample, str(log), "--at-least", "2")
    assert json.loads(output)["query"] == "zé\\bra &ü"


@pytest.mark.parametrize(
    "clients",
    [
        ["192.0.2.1"] * 3,
        ["192.0.2.1", "::ffff:192.0.2.1"],
        ["2001:db8::1", "2001:db8::2:3", "2001:db8:0:0:ffff::"],
        ["", "unknown", "_hidden", "10.0.0.1, 10.0.0.2"],
    ],
    ids=["IPv4", "mapped", "IPv6", "no addresses"],
)
def test_where_all_lines_are_of_one_client_nothing_is_written_and_the_reason_is(
    sample: Path, log: Path, capsys: pytest.CaptureFixture[str], clients: list[str]
) -> None:
    lines = [entry(NONSENSE, client) for client in clients]
    assert run(sample, write(log, lines), "--at-least", "2") == 1
    output, errors = capsys.readouterr()
    assert output == ""
    assert "error: all are of one client; behind a gateway, set --forwarded-allow-ips" in errors
    assert "zebra" not in errors


def test_lines_that_are_no_entries_are_left_out_and_counted(
    sample: Path, log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.intake.lists.MAX_RECORD", 4096)
    whole = json.dumps(entry(NONSENSE, "192.0.2.9")).encode()
    others = [
        b"INFO:     Uvicorn running on http://127.0.0.1:8000 (Press CTRL+C to quit)\n",
        b'{"level":"info","msg":"from another program"}\n',
        b"[" * 100_000 + b"\n",
        whole[:-5] + b"\n",
        b'"' + b"x" * 3_000_000 + b'"\n',
        b"\xff\xfe\x00\x1b[2J\n",
        json.dumps(entry(client="192.0.2.9", status="200")).encode() + b"\n",
        b"null\n",
        whole[:40],
    ]
    lines = [*entries(NONSENSE, 1), *others[:4], *entries(NONSENSE, 1, 1), *others[4:]]
    assert run(sample, write(log, lines), "--at-least", "2") == 0
    output, note = capsys.readouterr()
    assert json.loads(output)["clients"] == 2
    assert "left out 9 of 11 lines, which are not of the log of RATECARD_LOG_REQUESTS" in note
    assert note.isprintable() or note[:-1].isprintable()


def test_an_empty_log_writes_nothing(
    sample: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(sample, write(log, [])) == 0
    assert capsys.readouterr().out == ""
    assert run(sample, str(log), "--html") == 0
    assert capsys.readouterr().out == '<ul class="wanted">\n</ul>\n'


def test_a_fragment_has_the_queries_as_text_without_markup_or_controls(
    sample: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = '<script>zebra("a&b")</script>\u202e\x00\x1b[2J\ufeff zzz'
    shown = "&lt;script&gt;zebra(&quot;a&amp;b&quot;)&lt;/script&gt;"
    assert run(sample, write(log, entries(hostile, 10)), "--html") == 0
    assert capsys.readouterr().out.splitlines() == [
        '<ul class="wanted">',
        f"<li><bdi>{shown} [2j zzz</bdi> <small>10 clients</small></li>",
        "</ul>",
    ]


@pytest.mark.parametrize("number", ["1", "0", "-3"])
def test_queries_of_single_clients_are_refused(
    sample: Path, log: Path, capsys: pytest.CaptureFixture[str], number: str
) -> None:
    assert run(sample, write(log, entries(NONSENSE, 3)), f"--at-least={number}") == 2
    output, errors = capsys.readouterr()
    assert output == ""
    assert "--at-least: give 2 or more" in errors


def test_a_damaged_or_missing_log_is_an_error_that_names_it_and_nothing_is_written(
    sample: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = write(log, entries(NONSENSE, 10))
    packed = log.with_suffix(".gz")
    write(packed, entries(NONSENSE, 100))
    packed.write_bytes(packed.read_bytes()[:-30])
    for name, reason in ((packed, "damaged or cut short"), (log / "none", ""), (log.parent, "")):
        assert run(sample, whole, str(name)) == 1
        output, errors = capsys.readouterr()
        assert output == ""
        assert str(name) in errors
        assert reason in errors
        assert "zebra" not in errors


def test_without_a_snapshot_it_says_what_to_do(
    artifacts: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(artifacts, write(log, entries(NONSENSE, 10))) == 1
    assert "build" in capsys.readouterr().err


def test_without_a_threshold_only_what_finds_nothing_is_written_and_it_says_so(
    artifacts: Path, log: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build([service("tides", name="Tides", description="tide tables")]) == 0
    assert open_snapshot(artifacts).manifest.threshold is None
    capsys.readouterr()
    assert run(artifacts, write(log, entries("tide menus", 10) + entries(NONSENSE, 10))) == 0
    output, note = capsys.readouterr()
    assert json.loads(output) == {
        "query": NONSENSE,
        "clients": 10,
        "requests": 10,
        "fit": None,
        "first": None,
    }
    assert "the catalogue is too small to judge what fits: under 20 texts; " in note


def test_a_full_disk_is_an_error_without_a_query(
    sample: Path, log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect

    def connect_full(name: str) -> Any:
        database = connect(name)
        database.execute("PRAGMA max_page_count = 3")
        return database

    monkeypatch.setattr("indexer.cli.wanted.sqlite3.connect", connect_full)
    assert run(sample, write(log, entries(NONSENSE, 200) * 5)) == 1
    output, errors = capsys.readouterr()
    assert output == ""
    assert "error: the searches cannot be kept on disk: database or disk is full" in errors
    assert "zebra" not in errors
