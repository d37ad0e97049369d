"""Sources and policy in a catalogue file: what it says, its defaults, and its faults."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.__main__ import main
from indexer.declarations import DURATIONS, SIZES, declarations
from indexer.options import (
    BuildOptions,
    Denial,
    Kind,
    OnError,
    Policy,
    SourceOptions,
    Stablecoin,
)
from indexer.sources.catalogue_file import CatalogueFile, name_source, read_catalogue_file
from tests.support.running import service, write_lines

SECRET = "c0ffee-secret"  # noqa: S105  # of nobody
FEED = 'name = "feed"\nurl = "https://feed.example/resources"\n'
PAID = 'name = "paid"\npath = "paid.csv"\nkind = "payments"\n'
OWN = '[[source]]\nname = "own"\npath = "own.jsonl"\n'


def read(folder: Path, text: str) -> CatalogueFile:
    path = folder / "catalogue.toml"
    path.write_text(text)
    return read_catalogue_file(str(path))


def source(folder: Path, text: str) -> SourceOptions:
    (options,) = read(folder, f"[[source]]\n{text}").sources
    return options


def refusal(folder: Path, text: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Build from a catalogue file with a fault; returns the error after the name of the file."""
    path = folder / "catalogue.toml"
    path.write_text(text)
    assert main(["build", str(path), "--out", str(folder / "artifacts")]) == 2
    assert not (folder / "artifacts").exists()
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"error: {path}: ")
    return output.err.removeprefix(f"error: {path}: ").rstrip("\n")


def test_a_path_is_believed_and_a_url_is_not(tmp_path: Path) -> None:
    assert source(tmp_path, 'name = "own"\npath = "own.jsonl"') == SourceOptions(
        name="own",
        path=str(tmp_path / "own.jsonl"),
        trust=1,
        curated=True,
        on_error=OnError.LAST,
    )
    assert source(tmp_path, FEED) == SourceOptions(
        name="feed",
        url="https://feed.example/resources",
        kind=Kind.RESOURCES,
        on_error=OnError.LAST,
    )
    assert name_source("own.jsonl").on_error is OnError.FAIL


def test_each_key_of_a_source_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEED_KEY", SECRET)
    feed = (
        'kind = "records"\ntrust = -3\ncurated = true\nhides = true\non_error = "skip"\n'
        'max_age = "90s"\nevery = 60\nmax_removed = "2.5%"\nmax_items = 7\n'
        'headers = {Authorization = "env:FEED_KEY", Accept = "*/*"}\n'
        'params = {key = "env:FEED_KEY", limit = 50}\n'
    )
    assert source(tmp_path, FEED + feed) == SourceOptions(
        name="feed",
        url="https://feed.example/resources",
        kind=Kind.RECORDS,
        trust=-3,
        curated=True,
        hides=True,
        on_error=OnError.SKIP,
        max_age=90,
        every=60,
        max_removed=Fraction(1, 40),
        max_items=7,
        headers={"Authorization": SECRET, "Accept": "*/*"},
        params={"key": SECRET, "limit": "50"},
    )
    paid = source(tmp_path, f'{PAID}columns = {{sender = "payer"}}\nchain = "base"\n')
    assert (paid.columns, paid.chain) == ({"sender": "payer"}, "base")


def test_each_key_of_the_policy_is_read(tmp_path: Path) -> None:
    policy = """
[policy]
max_price = 0.1
allow_http = true
allow_private = true
endpoints_per_service = 5
max_age = "1h"
deny = [
    {host = "*.evil.example", reason = "a"},
    {domain = "x.example", reason = "b"},
    {payee = "0xA", reason = "c"},
    {id = "x", reason = "d"},
    {url = "https://x.example/a", reason = "e"},
]

[[policy.stablecoins]]
network = "eip155:1"
address = "0x1"
currency = "EURX"
decimals = 6
usd = false
"""
    assert read(tmp_path, OWN).policy == Policy()
    assert read(tmp_path, OWN + policy).policy == Policy(
        max_price=Decimal("0.1"),
        allow_http=True,
        allow_private=True,
        deny=(
            Denial(host="*.evil.example", reason="a"),
            Denial(domain="x.example", reason="b"),
            Denial(payee="0xA", reason="c"),
            Denial(id="x", reason="d"),
            Denial(url="https://x.example/a", reason="e"),
        ),
        endpoints_per_service=5,
        max_age=3600,
        stablecoins=(Stablecoin("eip155:1", "0x1", "EURX", 6, usd=False),),
    )


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("-", "-"),
        ("/srv/a.jsonl", "/srv/a.jsonl"),
        ("sub/*.csv", "{folder}/sub/*.csv"),
        ("a[1].jsonl", "{folder}/a[1].jsonl"),
    ],
)
def test_a_path_is_relative_to_the_file(tmp_path: Path, path: str, expected: str) -> None:
    write_lines(tmp_path / "a[1].jsonl", [service()])
    found = source(tmp_path, f'name = "x"\npath = "{path}"').path
    assert found == expected.format(folder=tmp_path)


def test_a_pattern_finds_files_in_a_folder_whose_name_looks_like_one(tmp_path: Path) -> None:
    folder = tmp_path / "of[2026]"
    folder.mkdir()
    (folder / "a.csv").touch()
    path = source(folder, 'name = "x"\nkind = "payments"\npath = "*.csv"').path
    pattern = Path(path)
    assert [*pattern.parent.parent.glob(f"{pattern.parent.name}/*.csv")] == [folder / "a.csv"]


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.toml"
    path.write_text(OWN, encoding="utf-8-sig")
    assert len(read_catalogue_file(str(path)).sources) == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "names no source; write a table [[source]] for each"),
        ('[source]\nname = "x"', "names no source; write a table [[source]] for each"),
        ("[[sorce]]", "`sorce` is no table of a catalogue; did you mean `source`?"),
        ("x =", "is not TOML: Invalid value (at end of document)"),
        (
            f"{OWN}max_items = {'9' * 5000}",
            "holds a number of too many digits, or is nested too deeply",
        ),
        ('[[source]]\npath = "x"', "source 1: `name` is missing"),
        ('[[source]]\nname = ""', "source 1 (): `name`: expected 1 to 100 printable characters"),
        (
            '[[source]]\nname = "a\\u202eb"\npath = "x"',
            "source 1 (a\\u202eb): `name`: expected 1 to 100 printable characters",
        ),
        (OWN + OWN, "source 2 (own): another source has this name; each needs its own"),
        ('[[source]]\nname = "x"', "source 1 (x): expected one of `url` and `path`"),
        (
            '[[source]]\nname = "x"\npath = "x"\nurl = "http://x.example"',
            "source 1 (x): expected one of `url` and `path`",
        ),
        (
            f"{OWN}{OWN.replace('own', 'b')}[[source]]\n{FEED}trsut = 1",
            "source 3 (feed): `trsut` is no key of a source; did you mean `trust`?",
        ),
        (
            f"[[source]]\n{FEED}trust = true",
            "source 1 (feed): `trust`: expected a whole number from -1000 to 1000",
        ),
        (
            f"[[source]]\n{FEED}trust = 1001",
            "source 1 (feed): `trust`: expected a whole number from -1000 to 1000",
        ),
        (
            f'[[source]]\n{FEED}max_items = "7"',
            "source 1 (feed): `max_items`: expected a whole number from 1",
        ),
        (
            f'[[source]]\n{FEED}kind = "resource"',
            (
                "source 1 (feed): `kind`: expected one of resources, records, openapi, mpp, "
                "manifest, payments, overlay, probes"
            ),
        ),
        (
            f'[[source]]\n{FEED}hosts = ["https://a.example"]',
            (
                "source 1 (feed): `hosts`: https://a.example is no host name; leave scheme and "
                "port out"
            ),
        ),
        (
            f'[[source]]\n{FEED}hosts = ["a.example", "a.example:80"]',
            "source 1 (feed): `hosts`: a.example:80 is no host name; leave scheme and port out",
        ),
        (
            f'[[source]]\n{FEED}hosts = "a.example"',
            "source 1 (feed): `hosts`: expected a list of host names",
        ),
        (
            f'[[source]]\n{PAID}hosts = ["a.example"]',
            "source 1 (paid): `hosts` is for listings only; remove it",
        ),
        (
            f'[[source]]\n{FEED}every = "1 hour"',
            "source 1 (feed): `every`: expected a duration such as 90s, 15m, 1h or 7d",
        ),
        (
            f"[[source]]\n{FEED}max_removed = 0.1",
            "source 1 (feed): `max_removed`: expected a percentage such as 1%",
        ),
        (
            f"[[source]]\n{FEED}curated = 1",
            "source 1 (feed): `curated`: expected `bool`, got `int`",
        ),
        (
            '[[source]]\nname = "x"\nurl = "x.jsonl"',
            "source 1 (x): `url`: expected an http or https URL",
        ),
        (
            '[[source]]\nname = "x"\nurl = "https://x.example/my api.json?key=c0ffee"',
            (
                "source 1 (x): `url`: holds a character that is not allowed in a URL; a blank is "
                "written as %20"
            ),
        ),
        (
            '[[source]]\nname = "x"\npath = "a\\u0000b"',
            "source 1 (x): `path`: holds a null character, which no file name has",
        ),
        (
            f'[[source]]\n{FEED}chain = "base"',
            "source 1 (feed): `chain` is for payments only; remove it",
        ),
        (
            f"[[source]]\n{PAID}trust = 2",
            "source 1 (paid): `trust` is for listings and probes only; remove it",
        ),
        (f'{OWN}every = "1h"', "source 1 (own): `every` is for URLs only; remove it"),
        (
            f"{OWN}[policy]\nmax_prize = 1",
            "[policy]: `max_prize` is no key here; did you mean `max_price`?",
        ),
        (
            f"{OWN}[policy]\nmax_price = nan",
            "[policy]: `max_price`: expected an amount such as 100",
        ),
        (f"{OWN}[policy]\nmax_price = -1", "[policy]: `max_price`: expected an amount such as 100"),
        (f'{OWN}[policy]\ndeny = ["host:x"]', "[policy]: `deny` 1: expected a table"),
        (
            f'{OWN}[policy]\ndeny = [{{id = "x", host = "y", reason = "z"}}]',
            "[policy]: `deny` 1: expected one of host, domain, payee, id, url, and a `reason`",
        ),
        (
            f'{OWN}[policy]\ndeny = [{{id = "x", reason = "z"}}, {{id = "y"}}]',
            "[policy]: `deny` 2: expected one of host, domain, payee, id, url, and a `reason`",
        ),
        *(
            (
                f"{OWN}[policy]\ndeny = [{{{key} = '{value}', reason = 'z'}}]",
                (
                    f"[policy]: `deny` 1: `{key}`: {value.strip()} holds a blank or a character "
                    f"that no {key} has{'; leave scheme and path out' * ('/' in value)}"
                ),
            )
            for key, value in [
                ("host", "https://api.scam.example"),
                ("host", "api.scam.example/v1"),
                ("domain", "https://api.scam.example"),
                ("payee", "0xab "),
                ("id", " scam-example"),
            ]
        ),
        (
            f'{OWN}[policy]\ndeny = [{{url = "foo", reason = "z"}}]',
            "[policy]: `deny` 1: `url`: foo is not a URL with a host",
        ),
        (
            f'{OWN}[[policy.stablecoins]]\nnetwork = "base"',
            "[policy]: `stablecoins` 1: `address` is missing",
        ),
        (f"{OWN}[[policy]]", "[policy]: expected a table"),
    ],
)
def test_a_fault_is_an_error_that_names_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, reason: str
) -> None:
    assert refusal(tmp_path, text, capsys) == reason


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("headers", "{A = 'env:NOPE'}", "`A`: the environment variable NOPE is not set"),
        ("params", "{a = 'env:EMPTY'}", "`a`: the environment variable EMPTY is not set"),
        (
            "headers",
            "{A = 'env:BROKEN'}",
            "`A`: the environment variable BROKEN is no header of printable ASCII",
        ),
        (
            "headers",
            f"{{A = '{SECRET}\u00e9'}}",
            "`A` is no header of printable ASCII",
        ),
        ("headers", f"'{SECRET}'", "expected a table of texts"),
        ("headers", f"{{A = ['{SECRET}']}}", "expected a table of texts"),
    ],
)
def test_no_error_of_headers_and_parameters_has_a_value(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    key: str,
    value: str,
    reason: str,
) -> None:
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("BROKEN", f"{SECRET}\r\nX: 1")
    error = refusal(tmp_path, f"[[source]]\n{FEED}{key} = {value}", capsys)
    assert error == f"source 1 (feed): `{key}`: {reason}"


def test_a_file_that_is_missing_or_no_text_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "catalogue.toml"
    assert main(["build", str(path)]) == 1
    assert capsys.readouterr().err == f"error: {path}: there is no such file\n"
    path.write_text(OWN, encoding="utf-16")
    assert main(["build", str(path)]) == 2
    error = f"error: {path}: is not UTF-8 at byte 0; save it as UTF-8\n"
    assert capsys.readouterr().err == error


@given(st.integers(1, 10**6), st.sampled_from([*DURATIONS]), st.sampled_from([*SIZES]))
def test_quantities_are_a_number_and_a_unit(number: int, time: str, size: str) -> None:
    every = declarations(SourceOptions)["every"]
    memory = declarations(BuildOptions)["memory"]
    assert every.convert(f"{number}{time}") == number * DURATIONS[time]
    for text in (size, size.lower(), f"{size}B", f"{size}iB"):
        assert memory.convert(f"{number}{text}") == number * SIZES[size]


@given(st.text() | st.integers() | st.floats() | st.lists(st.text()) | st.booleans())
def test_any_value_of_any_key_is_read_or_refused(value: object) -> None:
    for options in (SourceOptions, Policy, BuildOptions):
        for declaration in declarations(options).values():
            for strict in (True, False):
                with suppress(ValueError):  # the only error
                    declaration.convert(value, strict=strict)
