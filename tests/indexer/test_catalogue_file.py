"""Sources and policy in a catalogue file: what it says, its defaults, and its faults."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from indexer.__main__ import main
from indexer.catalogue_file import CatalogueFile, name_source, read_catalogue_file
from indexer.errors import Misuse
from indexer.options import (
    DURATIONS,
    SIZES,
    Denial,
    Kind,
    OnError,
    Policy,
    SourceOptions,
    Stablecoin,
    read_quantity,
)
from tests.support.running import service, write_lines
from tests.support.sources.x402 import resource

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
    free = read(tmp_path, f"{OWN}\n[policy]\nmax_price = 0\n").policy
    assert free == Policy(max_price=Decimal(0))
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


FAULTS = r"""
 => names no source; write a table [[source]] for each
[source] => `source`: Expected `array`, got `object`
[[sorce]] => `sorce` is no key here; did you mean `source`?
x = => is not TOML: Invalid value (at end of document)
[[source]]; path = "x" => source 1: Object missing required field `name`
[[source]]; name = "" => source 1 (): `name`: Expected `str` of length >= 1
[[source]]; name = "a\u202eb"; path = "x" => source 1 (a\u202eb): `name`: holds a character that
[[source]]; name = "x" => source 1 (x): expected one of `url` and `path`
[[source]]; name = "x"; path = "x"; url = "http://x.example" => source 1 (x): expected one of `url`
[[source]]; name = "x"; url = "x.jsonl" => source 1 (x): `url`: is not a URL with a host
[[source]]; name = "x"; url = "ftp://x.example/" => source 1 (x): `url`: is not an http or https URL
[[source]]; name = "x"; url = "https://x.example/my api?key=1" => source 1 (x): `url`: holds a
[[source]]; name = "x"; path = "a\u0000b" => source 1 (x): `path`: holds a null character
OWN; OWN => source 2 (own): another source has this name; each needs its own
OWN; every = "1h" => source 1 (own): `every` is for URLs only; remove it
OWN; FEED; trsut = 1 => source 2 (feed): `trsut` is no key here; did you mean `trust`?
FEED; trust = 1001 => source 1 (feed): `trust`: Expected `int` <= 1000
FEED; max_items = "7" => source 1 (feed): `max_items`: Expected `int`, got `str`
FEED; kind = "resource" => source 1 (feed): `kind`: expected one of resources, records, openapi,
FEED; hosts = ["a", "x:80"] => source 1 (feed): `hosts`: x:80 is no host name; leave scheme
FEED; every = "1 hour" => source 1 (feed): `every`: Expected a duration such as 90s, 1h or 7d
FEED; max_removed = 0.1 => source 1 (feed): `max_removed`: Expected a percentage such as 1%
FEED; headers = {A = "env:NOPE"} => source 1 (feed): `headers`: `A`: the environment variable NOPE
FEED; params = {a = "env:EMPTY"} => source 1 (feed): `params`: `a`: the environment variable EMPTY
FEED; headers = {A = "env:BROKEN"} => source 1 (feed): `headers`: `A` is no header of printable
FEED; headers = {A = "c0ffee-secret\u00e9"} => source 1 (feed): `headers`: `A` is no header of
FEED; headers = {A = ""} => source 1 (feed): `headers`: `A` is no header of
FEED; headers = {A = "c0ffee-secret "} => source 1 (feed): `headers`: `A` is no header of
FEED; headers = {A = "c0ffee-secret\t"} => source 1 (feed): `headers`: `A` is no header of
FEED; headers = "c0ffee-secret" => source 1 (feed): `headers`: Expected `object`, got `str`
FEED; headers = {A = ["c0ffee-secret"]} => source 1 (feed): `headers[...]`: Expected `str`, got
POLICY; max_prize = 1 => [policy]: `max_prize` is no key here; did you mean `max_price`?
POLICY; max_price = nan => [policy]: `max_price`: expected an amount such as 100
POLICY; max_price = -1 => [policy]: `max_price`: expected an amount such as 100
POLICY; deny = ["host:x"] => [policy]: `deny[0]`: Expected `object`, got `str`
POLICY; deny = [{hots = "y"}] => [policy]: `deny[0]`: `hots` is no key here; did you mean `host`?
POLICY; deny = [{id = "y"}] => [policy]: `deny`: expected one of host, domain, payee, id, url, and a
POLICY; deny = [{id = "x", host = "y", reason = "z"}] => [policy]: `deny`: expected one of host,
POLICY; deny = [{host = "https://x", reason = "z"}] => [policy]: `deny`: `host`: https://x holds a
POLICY; deny = [{payee = "0xab ", reason = "z"}] => [policy]: `deny`: `payee`: 0xab holds a blank
POLICY; stablecoins = [{network = "base"}] => [policy]: `stablecoins[0]`: Object missing required
OWN; [[policy]] => `policy`: Expected `object`, got `array`
"""
"""Lines of a catalogue file, where names stand for tables, and the beginning of its error."""


@pytest.mark.parametrize("case", FAULTS.strip("\n").splitlines())
def test_a_fault_is_an_error_that_names_its_place_and_has_no_value(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    case: str,
) -> None:
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("BROKEN", f"{SECRET}\r\nX: 1")
    tables = {"OWN": OWN, "FEED": f"[[source]]\n{FEED}", "POLICY": f"{OWN}[policy]"}
    text, _, reason = case.partition(" => ")
    written = "\n".join(tables.get(line, line) for line in text.split("; "))
    error = refusal(tmp_path, written, capsys)
    assert error.startswith(reason)
    assert SECRET not in error


MEANINGLESS = [
    ("resources", 'hosts = ["api.good.example"]', "openapi and mpp and manifest"),
    ("resources", "hides = true", "records"),
    ("openapi", "hides = true", "records"),
    ("records", 'hosts = ["api.good.example"]', "openapi and mpp and manifest"),
    ("", "hides = true", "records"),
    ("", 'chain = "base"', "payments"),
    ("payments", "trust = 2", "resources and records and openapi and mpp and manifest and probes"),
    ("probes", "curated = true", "resources and records and openapi and mpp and manifest"),
]


@pytest.mark.parametrize(("kind", "key", "meant"), MEANINGLESS)
def test_a_key_that_means_nothing_for_a_kind_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, key: str, meant: str
) -> None:
    """`hosts` is no filter of a feed, and a feed hides nothing."""
    declared = f'kind = "{kind}"\n' if kind else ""
    name, _, _ = key.partition(" ")
    reason = f"source 1 (feed): `{name}` is for sources of {meant} only; remove it"
    assert refusal(tmp_path, f"[[source]]\n{FEED}{declared}{key}", capsys) == reason


def test_hosts_of_a_list_whose_kind_its_content_says_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_lines(tmp_path / "own.jsonl", [resource()])
    path = tmp_path / "catalogue.toml"
    path.write_text(f'{OWN}hosts = ["api.good.example"]\non_error = "fail"')
    assert main(["build", str(path), "--out", str(tmp_path / "artifacts")]) == 1
    assert capsys.readouterr().err == (
        "error: own: `hosts` is for documents, and this is none; remove it\n"
    )


def test_a_file_that_is_missing_or_no_text_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "catalogue.toml"
    assert main(["build", str(path)]) == 1
    assert capsys.readouterr().err == f"error: {path}: there is no such file\n"
    path.write_text(f"{OWN}max_items = {'9' * 5000}")
    assert main(["build", str(path)]) == 2
    assert "holds a number of too many digits" in capsys.readouterr().err
    path.write_text(OWN, encoding="utf-16")
    assert main(["build", str(path)]) == 2
    error = f"error: {path}: is not UTF-8 at byte 0; save it as UTF-8\n"
    assert capsys.readouterr().err == error


@given(st.integers(1, 10**6), st.sampled_from([*DURATIONS]), st.sampled_from([*SIZES]))
def test_quantities_are_a_number_and_a_unit(number: int, time: str, size: str) -> None:
    assert read_quantity("every", f"{number}{time}") == number * DURATIONS[time]
    for text in (size, size.lower(), f"{size}B", f"{size}iB"):
        assert read_quantity("memory", f"{number}{text}") == number * SIZES[size]


SCALARS = st.text() | st.integers() | st.floats() | st.booleans() | st.sampled_from(["7d", "10%"])
VALUES = st.recursive(
    SCALARS,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
    max_leaves=5,
)


def tables(kind: type[Struct]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(kind.__struct_fields__) | st.text(), VALUES, max_size=4)


@given(st.lists(tables(SourceOptions), max_size=3), tables(Policy), tables(Denial))
def test_any_catalogue_file_is_read_or_refused(
    sources: list[dict[str, Any]], policy: dict[str, Any], denial: dict[str, Any]
) -> None:
    named = [{"name": f"s{number}", "path": "x"} | each for number, each in enumerate(sources)]
    with TemporaryDirectory() as folder:
        path = Path(folder, "catalogue.toml")
        document = {"source": named, "policy": {"deny": [denial]} | policy}
        with patch("tomllib.loads", lambda _: document):
            path.touch()
            with suppress(Misuse):  # the only error
                read_catalogue_file(str(path))


@given(st.integers(0, 10**12 - 1), st.integers(1, 2**70), st.decimals(0, 100, places=3))
def test_options_are_read_back_as_they_are_written(every: int, items: int, share: Decimal) -> None:
    keys = {"name": "feed", "url": "https://feed.example/", "every": every, "max_age": "2d"}
    with TemporaryDirectory() as folder, patch("tomllib.loads") as loads:
        loads.return_value = {"source": [keys | {"max_items": items, "max_removed": f"{share}%"}]}
        found = source(Path(folder), "")
    assert (found.every, found.max_items, found.max_age) == (every, items, 2 * 24 * 3600)
    assert found.max_removed == Fraction(share) / 100
