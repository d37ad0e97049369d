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
from indexer.options import (
    BuildOptions,
    Denial,
    Kind,
    Limits,
    OnError,
    Policy,
    SourceOptions,
)

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
    """Run `build` or `check` with wrong options, and return the first line of the error."""

    def run(*arguments: object) -> str:
        try:
            status: object = main([request.param, *map(str, arguments)])
        except SystemExit as ended:
            status = ended.code
        assert status == 2
        output = capsys.readouterr()
        assert output.out == ""
        assert "c0ffee" not in output.err
        return output.err.removeprefix("error: ").partition("\n")[0]

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
    assert asdict(options) == asdict(BuildOptions(sources=options.sources))


def test_flags_of_sources_of_the_policy_and_of_reading(check: Check, tmp_path: Path) -> None:
    options = check(
        *("a.jsonl", "--transactions", "p.csv", "q.csv", "--on-error", "last"),
        *("--max-price", "0.5", "--allow-http"),
        *("--deny", "host:*.evil.example", "--deny", "payee:0xA", "--deny", "domain:x.example"),
        *("--deny", "id:a:b", "--deny", "HTTPS://x.example/a:b"),
        *("--accept", "a.jsonl", "--forget", "--from-scratch", "--out", tmp_path / "out"),
        *("--rejects", tmp_path / "rejects", "--max-rejects", "0%", "--jobs", "2"),
        *("--feed-seconds", "1m", "--feed-bytes", "1g", "--allow-private-feeds"),
    )
    assert [(each.kind, each.on_error) for each in options.sources] == [
        (None, OnError.LAST),
        (Kind.PAYMENTS, OnError.FAIL),
        (Kind.PAYMENTS, OnError.FAIL),
    ]
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
    )
    assert options.limits == Limits(seconds=60, bytes=2**30, allow_private=True)
    assert (options.accept, options.forget) == (frozenset({"a.jsonl"}), True)
    assert (options.out, options.rejects) == (tmp_path / "out", tmp_path / "rejects")
    assert (options.max_rejects, options.jobs, options.from_scratch) == (Fraction(0), 2, True)


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
        (["b.toml"], "{path}: names all sources; write a [[source]] there for b.toml"),
        (
            ["--transactions", "p.csv", "--records", "https://feed.example/a?key=c0ffee"],
            "{path}: names all sources; write a [[source]] there for https://feed.example/a, p.csv",
        ),
        (
            ["--on-error", "skip"],
            "--on-error: write `on_error` into the [[source]] tables of {path} instead",
        ),
        (["--max-price", "1"], "--max-price: write `max_price` into [policy] of {path} instead"),
        (["--deny", "id:a"], "--deny: write `deny` into [policy] of {path} instead"),
        (["--accept", "other"], "--accept other: is no source; there are own"),
    ],
)
def test_what_contradicts_a_catalogue_file_is_an_error(
    refuse: Any, catalogue: Path, arguments: list[str], reason: str
) -> None:
    assert refuse(catalogue, *arguments) == reason.format(path=catalogue)


@pytest.mark.parametrize(
    ("flag", "key"),
    [
        ("--header", "`headers` of [[source]]"),
        ("--max-removed", "`max_removed` of [[source]]"),
        ("--max-age", "`max_age` of [[source]]"),
        ("--curated", "`curated` of [[source]]"),
        ("--probe-max-age", "`probe_max_age` of [policy]"),
    ],
)
@pytest.mark.parametrize("value", [(), ("c0ffee",)])
def test_a_key_of_a_catalogue_file_is_refused_as_option(
    refuse: Any, flag: str, key: str, value: tuple[str, ...]
) -> None:
    reason = f"{flag} is no option; write {key} in a catalogue file"
    assert refuse("a.jsonl", flag, *value) == reason
    assert refuse("a.jsonl", "=".join((flag, *value))) == reason


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (
            ["ftp://files.example/?key=c0ffee"],
            "ftp://…: sources are read over http and https only, or from files",
        ),
        (["--max-price", "nan"], "--max-price: expected an amount such as 100"),
        (["--on-error", "x"], "argument --on-error: expected one of fail, last, skip, got 'x'"),
        (["--out", ""], "argument --out: expected a path, got nothing"),
        (["--jobs", "0"], "argument --jobs: expected `int` >= 1, got '0'"),
        (["--memory", "x"], "argument --memory: expected a size such as 512M or 2G, got 'x'"),
        (
            ["--max-rejects", "2"],
            "argument --max-rejects: expected a percentage such as 1%, got '2'",
        ),
        (["--deny", "http://["], "--deny: `url`: http://[ is not a URL: Invalid IPv6 URL"),
        (
            ["--deny", "evil.example"],
            "--deny evil.example: expected host:, domain:, payee: or id: with a value, or a URL",
        ),
        (
            ["--deny", "host:api.scam.example/v1"],
            (
                "--deny: `host`: api.scam.example/v1 holds a blank or a character that no host "
                "has; leave scheme and path out"
            ),
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
def test_a_fault_of_the_command_line_is_an_error(
    refuse: Any, arguments: list[str], reason: str
) -> None:
    assert refuse("a.jsonl", *arguments) == reason


def test_a_source_is_required(refuse: Any) -> None:
    error = refuse("--transactions", "p.csv")
    assert error == "the following arguments are required: SOURCE"
