"""Sources and flags of `build` and `check`, as the options that these give to the indexer."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

from indexer.__main__ import main
from indexer.errors import IndexerError
from indexer.options import BuildOptions, Denial, Kind, Limits, OnError, Policy, SourceOptions
from tests.support.running import payment, service, write_lines

FEED = "https://user:pw@feed.example/resources?key=c0ffee"
Check = Callable[..., BuildOptions]


class Stopped(IndexerError):
    """Ends a command where it would read the sources."""


@pytest.fixture(params=["build", "check"])
def check(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Run `build` or `check` up to where sources are read, and return the options."""
    seen: list[BuildOptions] = []

    def stop(options: BuildOptions, _: object = None) -> None:
        seen.append(options)
        raise Stopped("stopped")

    monkeypatch.setattr("indexer.cli.build.build_snapshot", stop)
    monkeypatch.setattr("indexer.cli.build.check_sources", stop)

    def run(*arguments: object) -> BuildOptions:
        assert main([request.param, *map(str, arguments)]) == 1
        return seen.pop()

    return run


@pytest.fixture(params=["build", "check"])
def refuse(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run `build` or `check` with wrong options, and return the error."""

    def run(*arguments: object) -> str:
        assert main([request.param, *map(str, arguments)]) == 2
        output = capsys.readouterr()
        assert output.out == ""
        return output.err.removeprefix("error: ").rstrip("\n")

    return run


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    path = tmp_path / "catalogue.toml"
    path.write_text(
        '[[source]]\nname = "own"\npath = "own.jsonl"\n[policy]\nmax_price = 5\nallow_http = true\n'
    )
    return path


def test_sources_without_flags_have_the_defaults(check: Check) -> None:
    options = check("a.jsonl", FEED, "--records", FEED, "--overlay", "o.json")
    assert options.sources == (
        SourceOptions(name="a.jsonl", path="a.jsonl", trust=1, curated=True),
        SourceOptions(name="https://feed.example/resources", url=FEED, kind=Kind.RESOURCES),
        SourceOptions(name="https://feed.example/resources", url=FEED, kind=Kind.RECORDS),
        SourceOptions(name="o.json", path="o.json", kind=Kind.OVERLAY, trust=1, curated=True),
    )
    assert (options.policy, options.limits) == (Policy(), Limits())
    defaults = BuildOptions(sources=options.sources)
    assert asdict(options) == asdict(defaults)


def test_a_flag_applies_to_the_sources_that_it_means_something_for(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEED_KEY", "Bearer a=b")
    options = check(
        *("a.jsonl", FEED, "--transactions", "p.csv", "--on-error", "last", "--max-age", "2d"),
        *("--every", "5m", "--max-removed", "1%", "--max-items", "9", "--curated"),
        *("--header", "Authorization=env:FEED_KEY", "--header", "X-A=1=2", "--param", "a=b"),
        *("--column", "sender=payer", "--column", "recipient=merchant", "--chain", "base"),
    )
    own, feed, payments = options.sources
    for source in (own, feed):
        assert (source.on_error, source.max_age) == (OnError.LAST, 2 * 24 * 3600)
        assert (source.max_removed, source.max_items) == (Fraction(1, 100), 9)
        assert source.curated
    assert (payments.on_error, payments.max_items) == (OnError.FAIL, 10_000_000)
    assert (feed.every, own.every) == (300, 3600)
    assert feed.headers == {"Authorization": "Bearer a=b", "X-A": "1=2"}
    assert feed.params == {"a": "b"}
    assert payments.columns == {"sender": "payer", "recipient": "merchant"}
    assert payments.chain == "base"
    assert own.headers == own.params == own.columns == payments.headers == feed.columns == {}
    assert own.chain == feed.chain == ""


def test_flags_of_the_policy_and_of_reading(check: Check, tmp_path: Path) -> None:
    options = check(
        *("a.jsonl", "--max-price", "0.5", "--allow-http", "--endpoints-per-service", "3"),
        *("--max-listing-age", "30d", "--deny", "host:*.evil.example", "--deny", "payee:0xA"),
        *("--deny", "domain:x.example", "--deny", "id:a:b", "--deny", "HTTPS://x.example/a:b"),
        *("--accept", "a.jsonl", "--forget", "--from-scratch", "--out", tmp_path / "out"),
        *("--rejects", tmp_path / "rejects", "--max-rejects", "0%", "--jobs", "2"),
        *("--feed-seconds", "1m", "--feed-bytes", "1G", "--allow-private-feeds"),
    )
    assert options.policy == Policy(
        max_price=Decimal("0.5"),
        allow_http=True,
        deny=(
            Denial(host="*.evil.example", reason="--deny"),
            Denial(payee="0xA", reason="--deny"),
            Denial(domain="x.example", reason="--deny"),
            Denial(id="a:b", reason="--deny"),
            Denial(url="HTTPS://x.example/a:b", reason="--deny"),
        ),
        endpoints_per_service=3,
        max_age=30 * 24 * 3600,
    )
    assert options.limits == Limits(seconds=60, bytes=2**30, allow_private=True)
    assert options.accept == frozenset({"a.jsonl"})
    assert options.forget
    assert options.from_scratch
    assert (options.out, options.rejects) == (tmp_path / "out", tmp_path / "rejects")
    assert (options.max_rejects, options.jobs) == (Fraction(0), 2)


def test_a_catalogue_file_gives_sources_and_policy_and_flags_the_rest(
    check: Check, catalogue: Path
) -> None:
    options = check(catalogue, "--accept", "own", "--forget", "--feed-bytes", "1G")
    (source,) = options.sources
    assert (source.name, source.on_error) == ("own", OnError.LAST)
    assert options.policy == Policy(max_price=Decimal(5), allow_http=True)
    assert (options.accept, options.forget) == (frozenset({"own"}), True)
    assert options.limits == Limits(bytes=2**30)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["b.jsonl"], "{path}: names all sources; write a [[source]] there for b.jsonl"),
        (["b.toml"], "{path}: names all sources; write a [[source]] there for b.toml"),
        (
            ["--transactions", "p.csv", "--records", "https://feed.example/a?key=c0ffee"],
            "{path}: names all sources; write a [[source]] there for https://feed.example/a, p.csv",
        ),
        (
            ["--header", "A=c0ffee"],
            "--header: write `headers` into the [[source]] tables of {path}",
        ),
        (["--curated"], "--curated: write `curated` into the [[source]] tables of {path}"),
        (["--max-price", "1"], "--max-price: write `max_price` into [policy] of {path}"),
        (["--max-listing-age", "1d"], "--max-listing-age: write `max_age` into [policy] of {path}"),
        (["--accept", "other"], "--accept other: is no source; there are own"),
    ],
)
def test_what_contradicts_a_catalogue_file_is_an_error(
    refuse: Any, catalogue: Path, arguments: list[str], reason: str
) -> None:
    error = refuse(catalogue, *arguments)
    assert error.removesuffix(" instead") == reason.format(path=catalogue)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--header", "A=1"], "--header: is for URLs only, and no source is one"),
        (["--param", "A=1"], "--param: is for URLs only, and no source is one"),
        (["--every", "1h"], "--every: is for URLs only, and no source is one"),
        (["--chain", "base"], "--chain: is for payments only, and no source is one"),
        (["--column", "a=b"], "--column: is for payments only, and no source is one"),
        (
            [FEED, "--header", "A=env:NOPE"],
            "--header: `A`: the environment variable NOPE is not set",
        ),
        ([FEED, "--header", "A=c0ffee\n"], "--header: `A` is no header of printable ASCII"),
        (
            ["ftp://files.example/?key=c0ffee"],
            "ftp://…: sources are read over http and https only, or from files",
        ),
        (
            ["--deny", "http://["],
            "--deny: `url`: http://[ is not a URL: Invalid IPv6 URL",
        ),
        (
            ["--deny", "host:api.scam.example/v1"],
            (
                "--deny: `host`: api.scam.example/v1 holds a blank or a character that no host "
                "has; leave scheme and path out"
            ),
        ),
        (
            ["--deny", "payee:0xab "],
            "--deny: `payee`: 0xab holds a blank or a character that no payee has",
        ),
        (
            ["https://files.example/my api.json?key=c0ffee"],
            (
                "https://files.example/my api.json: holds a character that is not allowed in a "
                "URL; a blank is written as %20"
            ),
        ),
        (
            ["https://me:c0/ffee@files.example"],
            "files.example: is not a URL; a blank is written as %20",
        ),
    ],
)
def test_a_flag_without_effect_or_with_a_fault_is_an_error(
    refuse: Any, arguments: list[str], reason: str
) -> None:
    assert refuse("a.jsonl", *arguments) == reason


@pytest.mark.parametrize("command", ["build", "check"])
@pytest.mark.parametrize(
    "arguments",
    [["--header", "c0ffee"], ["--param", "=c0ffee"], ["--deny", "evil.example"], ["--deny", "id:"]],
)
def test_a_value_that_names_nothing_is_a_usage_error(
    command: str, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, FEED, *arguments])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: argument {arguments[0]}: expected ")
    assert "c0ffee" not in error


@pytest.mark.parametrize("command", ["build", "check"])
def test_a_source_is_required(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--transactions", "p.csv"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(
        "error: the following arguments are required: SOURCE\n"
    )


def test_a_source_behind_payments_is_no_payments(check: Check, refuse: Any, tmp_path: Path) -> None:
    source = write_lines(tmp_path / "b.jsonl", [service()])
    payments = write_lines(tmp_path / "p.jsonl", [payment()])
    assert refuse("a.jsonl", "--transactions", payments, source) == (
        f"--transactions {source}: holds services and no payments; write sources before "
        "--transactions, or after --"
    )
    options = check("--transactions", payments, payments, "--", source)
    assert [each.kind for each in options.sources] == [None, Kind.PAYMENTS, Kind.PAYMENTS]


def test_what_needs_no_network_is_checked_before_it_is_used(refuse: Any, tmp_path: Path) -> None:
    missing = tmp_path / "no" / "rejects"
    reason = f"there is no folder {missing.parent}; make it first"
    assert refuse(FEED, "--rejects", missing) == f"--rejects {missing}: {reason}"
