"""Probes of a local server whose hosts each answer in one way."""

from __future__ import annotations

import _thread
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec.structs import replace

from indexer.__main__ import main
from indexer.errors import IndexerError, Misuse
from indexer.probing.options import ProbeOptions
from indexer.probing.prober import ProbeReport, probe
from indexer.probing.targets import MAX_BODY, example_body
from indexer.progress import Progress
from service.bodies import FILE, FORM, MULTIPART
from service.schema.records import ParameterDescriptor
from tests.support.names import Resolve, replace_dns
from tests.support.running import Build, Json, endpoint, service
from tests.support.sources.feeds import (
    Behaviour,
    Exchange,
    Request,
    Server,
    failing,
    in_turn,
    misbehaving,
    self_signed,
)
from tests.support.sources.paid import CASES, TEXT_2, WHEREABOUTS, Answer, challenge, serve_cases
from tests.support.sources.x402 import resource, v2

CONTACT = "operator@catalogue.example"
ALLOWED = ("--allow-http", "--allow-private")

Probe = Callable[..., ProbeReport]
"""The type of the fixture `run`, which probes `artifacts`."""


def read_lines(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def answer_of(line: Json) -> Answer:
    return Answer(line["outcome"], line["status"], tuple(line["quotes"]), line["wildcard"])


def listed(*urls: str, **fields: Any) -> list[Json]:
    return [service(endpoints=[endpoint() | {"url": url} | fields for url in urls])]


class Probed(NamedTuple):
    """A probe of all cases: its lines by URL, the URLs by name, and the requests of the server."""

    lines: dict[str, Json]
    urls: dict[str, str]
    requests: list[Request]


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> Probed:
    folder = tmp_path_factory.mktemp("probe")
    source, out, artifacts = folder / "services.json", folder / "probes.jsonl", folder / "artifacts"
    with (
        pytest.MonkeyPatch.context() as monkeypatch,
        misbehaving(serve_cases) as server,
        misbehaving(serve_cases, self_signed()) as secure,
    ):
        resolve, ports = replace_dns(monkeypatch), {"port": server.server_port}
        ports["tls"] = secure.server_port
        urls = {name: url.format(**ports) for name, (url, _) in WHEREABOUTS.items()}
        urls |= {name: f"http://{name}.example:{server.server_port}/paid" for name in CASES}
        for name in (*CASES, "closed", "plain"):
            resolve(f"{name}.example", "127.0.0.1")
        resolve("no-such-name.example")
        resolve("metadata.example", "169.254.169.254")
        source.write_text(json.dumps(listed(*urls.values())))
        arguments = ["build", str(source), "--out", str(artifacts), *ALLOWED]
        assert main([*arguments, "--no-semantic", "--no-downloads"]) == 0
        options = ProbeOptions(
            out=out,
            contact=CONTACT,
            artifacts=artifacts,
            allow_private=True,
            seconds=1.5,
            interval=0,
        )
        report = probe(options, Progress())
    lines = read_lines(out)
    assert report.outcomes.total() == len(lines) == len(urls)
    return Probed({line["url"]: line for line in lines}, urls, server.requests)


@pytest.mark.parametrize("name", CASES)
def test_each_behaviour_of_an_endpoint_has_one_observation(name: str, probed: Probed) -> None:
    assert answer_of(probed.lines[probed.urls[name]]) == CASES[name].answer


@pytest.mark.parametrize("name", WHEREABOUTS)
def test_an_endpoint_that_is_not_asked_has_one_observation(name: str, probed: Probed) -> None:
    assert answer_of(probed.lines[probed.urls[name]]) == WHEREABOUTS[name][1]


def test_an_observation_names_the_prober_the_time_and_the_latency(probed: Probed) -> None:
    line = probed.lines[probed.urls["version-1"]]
    assert (line["method"], line["prober"]) == ("GET", "ratecard-probe")
    assert line["observed_at"].endswith("Z")
    assert 0 <= line["latency_ms"] < 1500


def test_every_request_names_the_contact_and_the_program(probed: Probed) -> None:
    agents = {request.headers["User-Agent"] for request in probed.requests}
    (agent,) = agents
    assert agent.startswith("ratecard-probe/")
    assert agent.endswith(f" (+{CONTACT})")


def test_each_endpoint_is_requested_once_by_get_and_nothing_else_but_two_paths(
    probed: Probed,
) -> None:
    name = "version-1"
    host = probed.urls[name].split("/")[2]
    targets = [each.target for each in probed.requests if each.headers["Host"] == host]
    robots, random, paid = targets
    assert (robots, paid) == ("GET /robots.txt", "GET /paid")
    assert random.startswith("GET /ratecard-probe-")


def test_an_endpoint_that_robots_disallow_is_not_requested(probed: Probed) -> None:
    for name in (name for name in CASES if CASES[name].answer == Answer("blocked")):
        host = probed.urls[name].split("/")[2]
        targets = [each.target for each in probed.requests if each.headers["Host"] == host]
        assert targets == ["GET /robots.txt"], name


@pytest.fixture
def run(artifacts: Path, tmp_path: Path) -> Probe:
    """Return a function that probes, private addresses too and without pauses."""

    def run(**fields: Any) -> ProbeReport:
        options = ProbeOptions(
            out=tmp_path / "probes.jsonl",
            contact=CONTACT,
            artifacts=artifacts,
            allow_private=True,
            interval=0,
        )
        return probe(replace(options, **fields), Progress())

    return run


@pytest.fixture
def resolve(monkeypatch: pytest.MonkeyPatch) -> Resolve:
    return replace_dns(monkeypatch)


def unlisted(paid: Behaviour) -> Behaviour:
    """Answer as given to listed paths, and 404 to all others."""

    def behave(exchange: Exchange) -> None:
        is_listed = exchange.path.startswith("/paid")
        (paid if is_listed else failing(404))(exchange)

    return behave


def paid_targets(server: Server) -> list[str]:
    return [each.target for each in server.requests if " /paid" in each.target]


@pytest.fixture
def server() -> Iterator[Server]:
    with misbehaving(unlisted(challenge(TEXT_2))) as server:
        yield server


def test_a_run_skips_what_the_file_observed_and_continues(
    server: Server, build: Build, run: Probe, tmp_path: Path
) -> None:
    urls = [f"{server.origin}/paid/{number}" for number in range(4)]
    build(listed(*urls[:2]), options=ALLOWED)
    assert run().outcomes.total() == 2
    build(listed(*urls), options=ALLOWED)
    report = run()
    assert (report.outcomes.total(), report.recent) == (2, 2)
    assert [line["url"] for line in read_lines(tmp_path / "probes.jsonl")] == urls
    assert {line["wildcard"] for line in read_lines(tmp_path / "probes.jsonl")} == {False}
    assert run(every=0).outcomes.total() == 4


def test_a_line_that_was_cut_short_is_removed_and_its_endpoint_visited_again(
    server: Server, build: Build, run: Probe, tmp_path: Path
) -> None:
    urls = [f"{server.origin}/paid/{number}" for number in range(2)]
    build(listed(*urls), options=ALLOWED)
    run()
    out = tmp_path / "probes.jsonl"
    out.write_bytes(out.read_bytes()[:-20])
    assert run().outcomes.total() == 1
    assert [line["url"] for line in read_lines(out)] == urls


@pytest.mark.parametrize("text", ['{"name": "One"}\n', '{"name": "One"}', "# Notes"])
def test_a_file_of_something_else_is_refused_and_left_alone(
    text: str, server: Server, build: Build, run: Probe, tmp_path: Path
) -> None:
    build(listed(f"{server.origin}/paid"), options=ALLOWED)
    out = tmp_path / "notes"
    out.write_text(text)
    with pytest.raises(Misuse, match=r"notes: line 1 is no observation"):
        run(out=out)
    assert out.read_text() == text
    assert server.requests == []


def test_two_probes_of_one_file_are_kept_apart(build: Build, run: Probe, tmp_path: Path) -> None:
    messages: list[str] = []

    def probe_again(exchange: Exchange) -> None:
        with pytest.raises(IndexerError) as raised:
            run()
        messages.append(str(raised.value))
        exchange.respond({})

    with misbehaving(unlisted(probe_again)) as server:
        build(listed(f"{server.origin}/paid"), options=ALLOWED)
        run()
    assert messages == [
        f"another probe is at work on {tmp_path / 'probes.jsonl'}; try again when it ends"
    ]


def test_an_interrupt_leaves_whole_lines_and_the_next_run_visits_the_rest(
    build: Build, run: Probe, tmp_path: Path
) -> None:
    def interrupt(_: Exchange) -> None:
        _thread.interrupt_main()

    ask = challenge(TEXT_2)
    with misbehaving(unlisted(in_turn(ask, interrupt, ask))) as server:
        urls = [f"{server.origin}/paid/{number}" for number in range(4)]
        build(listed(*urls), options=ALLOWED)
        with pytest.raises(KeyboardInterrupt):
            run()
        out = tmp_path / "probes.jsonl"
        assert [line["url"] for line in read_lines(out)] == urls[:1]
        run()
    assert [line["url"] for line in read_lines(out)] == urls


@pytest.mark.parametrize(
    ("paid", "requests"), [(failing(429), 1), (Exchange.hang_up, 5)], ids=["429", "silence"]
)
def test_a_host_that_wants_no_more_is_left_alone_until_the_next_run(
    paid: Behaviour, requests: int, build: Build, run: Probe
) -> None:
    with misbehaving(unlisted(paid)) as server, misbehaving(unlisted(failing(404))) as other:
        urls = [f"{server.origin}/paid/{number}" for number in range(12)]
        build(listed(*urls, f"{other.origin}/paid"), options=ALLOWED)
        report = run()
        assert len(paid_targets(server)) == requests
        assert report.postponed == 12 - requests
        run()
        assert len(set(paid_targets(server))) == 2 * requests  # others than in the first run


def test_a_site_that_took_all_of_its_time_is_left_alone_until_the_next_run(
    server: Server, build: Build, run: Probe
) -> None:
    build(listed(f"{server.origin}/paid"), options=ALLOWED)
    assert run(site_seconds=0).postponed == 1
    assert server.requests == []
    assert run().postponed == 0


def test_nothing_is_written_of_unreachable_hosts_while_none_is_connected_to(
    build: Build, run: Probe, resolve: Resolve, tmp_path: Path
) -> None:
    resolve("a.example")
    resolve("b.example")
    build(listed("https://a.example/paid", "https://b.example/paid"))
    with pytest.raises(IndexerError, match=r"none of the hosts of 2 endpoints can be reached"):
        run()
    assert read_lines(tmp_path / "probes.jsonl") == []


def test_private_addresses_are_visited_on_request_alone(
    server: Server, build: Build, run: Probe, tmp_path: Path
) -> None:
    build(listed(f"{server.origin}/paid"), options=ALLOWED)
    run(allow_private=False)
    assert server.requests == []
    (line,) = read_lines(tmp_path / "probes.jsonl")
    assert answer_of(line) == Answer("not_probed")


BODY: list[Json] = [
    {"group": "body", "name": "city", "type": "string", "required": True, "example": "Oslo"},
    {"group": "body", "name": "days", "type": "number"},
]
WITHOUT_EXAMPLE = [{key: value for key, value in BODY[0].items() if key != "example"}]
MORE = {"city": "Oslo & more", "days": [1]}


def test_post_endpoints_are_visited_on_request_with_the_example_of_their_body(
    server: Server, build: Build, run: Probe, tmp_path: Path
) -> None:
    url = f"{server.origin}/paid"
    record = service(
        endpoints=[
            endpoint() | {"url": url, "method": "POST", "parameters": BODY},
            endpoint() | {"url": f"{url}/2", "method": "POST", "parameters": WITHOUT_EXAMPLE},
            endpoint() | {"url": f"{url}/3", "method": "DELETE"},
        ]
    )
    build([record], options=ALLOWED)
    assert run().outcomes.total() == 0
    run(post=True)
    (request,) = [each for each in server.requests if " /paid" in each.target]
    assert (request.target, json.loads(request.body)) == ("POST /paid", {"city": "Oslo"})
    assert request.headers["Content-Type"] == "application/json"
    lines = read_lines(tmp_path / "probes.jsonl")
    outcomes = {(line["url"], line["method"]): line["outcome"] for line in lines}
    assert outcomes == {(url, "POST"): "quoted", (f"{url}/2", "POST"): "not_probed"}


@pytest.mark.parametrize(
    ("body_type", "is_whole", "examples", "expected"),
    [
        ("application/json", False, MORE, (b'{"city":"Oslo & more","days":[1]}', True)),
        (FORM, False, MORE, (b"city=Oslo%20%26%20more&days=%5B1%5D", True)),
        ("text/plain", True, {"body": "Oslo"}, (b"Oslo", True)),
        ("text/plain", True, {"body": None}, None),
        ("text/plain", True, {"body": FILE}, (None, False)),
        (MULTIPART, False, {"city": None}, (None, False)),
        (FORM, False, {"city": None}, None),
        (FORM, False, {"city": "x" * MAX_BODY}, None),
    ],
)
def test_a_body_is_sent_by_its_media_type_or_left_out(
    body_type: str, is_whole: bool, examples: Json, expected: tuple[bytes | None, bool] | None
) -> None:
    fields = [BODY[0] | {"name": name, "example": each} for name, each in examples.items()]
    parameters = msgspec.json.decode(json.dumps(fields), type=list[ParameterDescriptor])
    body = example_body(parameters, body_type, is_whole=is_whole)
    assert body == (expected and (expected[0], body_type if expected[1] else ""))


def test_the_form_of_a_body_is_that_of_the_listing_or_else_of_the_record(
    server: Server, build: Build, run: Probe
) -> None:
    urls = [f"{server.origin}/paid/{name}" for name in ("record", "listing")]
    posted = {"method": "POST", "parameters": BODY, "bodyType": FORM}
    declared = v2({"method": "POST", "body": {"city": "Oslo"}, "bodyType": FORM})
    records = [
        service(endpoints=[endpoint() | {"url": urls[0]} | posted]),
        declared | {"resource": urls[1]},
    ]
    build(records, options=ALLOWED)
    run(post=True)
    sent = [each for each in server.requests if " /paid/" in each.target]
    assert {each.target for each in sent} == {"POST /paid/record", "POST /paid/listing"}
    assert {each.body for each in sent} == {b"city=Oslo"}
    assert {each.headers["Content-Type"] for each in sent} == {FORM}


@pytest.mark.parametrize(
    ("example", "outcome"),
    [
        ("{origin}/paid/oslo", "quoted"),
        ("https://elsewhere.example/paid/oslo", "not_probed"),
        ("{origin}/paid/:city", "not_probed"),
        ("no URL", "not_probed"),
    ],
)
def test_a_template_is_visited_at_its_example_on_the_same_host(
    example: str, outcome: str, server: Server, build: Build, run: Probe, tmp_path: Path
) -> None:
    url = f"{server.origin}/paid/:city"
    extensions = {"bazaar": {"exampleUrl": example.format(origin=server.origin)}}
    build([resource(url, extensions=extensions)], options=ALLOWED)
    run()
    (line,) = read_lines(tmp_path / "probes.jsonl")
    assert (line["url"], line["outcome"]) == (url, outcome)
    assert paid_targets(server) == ["GET /paid/oslo"] * (outcome == "quoted")


def test_an_endpoint_beyond_the_bounds_of_a_record_is_visited_too(
    server: Server, build: Build, run: Probe
) -> None:
    resources = [resource(f"{server.origin}/paid/{number}") for number in range(3)]
    policy = {"allow_http": True, "allow_private": True, "endpoints_per_service": 1}
    build(resources, policy=policy)
    assert run().outcomes.total() == 3
    assert len(set(paid_targets(server))) == 3


def test_an_endpoint_of_several_records_or_spellings_is_visited_once(
    server: Server, build: Build, run: Probe
) -> None:
    url = f"{server.origin}/paid"
    build(listed(url, f"{url}#top", f"{server.origin}/./paid"), options=ALLOWED)
    assert run().outcomes.total() == 1
    assert paid_targets(server) == ["GET /paid"]


def test_the_command_prints_the_numbers_of_observations(
    build: Build, artifacts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build(listed("http://10.0.0.1/paid"), options=ALLOWED)
    capsys.readouterr()
    command = ["probe", "--out", str(tmp_path / "new" / "probes.jsonl"), "--contact", CONTACT]
    command += ["--artifacts", str(artifacts)]
    assert main(command) == 0
    assert capsys.readouterr().out == "observed 1 endpoint of 1 host: 1 not_probed\n"
    assert main(command) == 0
    assert capsys.readouterr().out == (
        "observed 0 endpoints of 0 hosts: none is due\n"
        "observed by an earlier run, within --every: 1\n"
    )
    assert main([*command, "--quiet"]) == 0
    assert capsys.readouterr().out == ""
