"""Values that no decoder takes, at every place of an item, an overlay and a catalogue file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.json import decode, encode

from indexer.cli.main import main
from tests.support.artifacts import ids
from tests.support.intake import PLAIN
from tests.support.running import SEEDS, SHARED, Json
from tests.support.sources.manifests import HOST, objects, pointer, urls
from tests.support.sources.mpp import MAPS, directory
from tests.support.sources.openapi import X402SCAN
from tests.support.sources.x402 import accept, resource

MARK = "planted-here"
HALVES = [rb'"\ud83d"', rb'"\udc4d tail"', rb'"\udc4d\ud83d"', b'"\xed\xa0\xbd"']
"""Strings with half of a surrogate pair: escaped as JavaScript does, or encoded."""
OTHERS = [b"1e999", b"-1e-999", b"9" * 5000, b"NaN", b"[" * 500 + b"]" * 500, rb'"\u0000"', b'"\0"']


def read_items() -> list[Json]:
    """Return items of public feeds where they are at hand, and records of the sample catalogue."""
    items: list[Json] = []
    for path in sorted((SHARED / "bazaar").glob("*.json")):
        items += [each for each in decode(path.read_text())["resources"] if len(str(each)) < 2**13]
    items.append(
        resource(
            "https://a.example/x",
            accept(outputSchema={"input": {"queryParams": {"q": {"type": "string"}}}}),
            extensions={"bazaar": {"info": {"input": {"queryParams": {"q": "cut emoji"}}}}},
        )
    )
    with (SEEDS / "services.jsonl").open() as file:
        return items + [decode(line) for line in file][:20]


ITEMS = read_items()
items = st.sampled_from(ITEMS)


def plant(value: Any, *, is_root: bool = True) -> Iterator[Any]:
    """Yield copies of a JSON value with MARK at each place: instead of a value, and in a key."""
    if not is_root:
        yield MARK
    if isinstance(value, dict):
        for key in value:
            others = {name: each for name, each in value.items() if name != key}
            yield others | {f"{key}{MARK}": value[key]}
            yield from (others | {key: each} for each in plant(value[key], is_root=False))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            for planted in plant(each, is_root=False):
                yield [*value[:number], planted, *value[number + 1 :]]


def write(value: Any, faulty: bytes) -> bytes:
    """Return the JSON of a value with a faulty one in place of MARK."""
    text = encode(value)
    if b'"%b"' % MARK.encode() in text:
        return text.replace(b'"%b"' % MARK.encode(), faulty)
    return text.replace(MARK.encode(), faulty.strip(b'"') if faulty[:1] == b'"' else b"\\ud83d")


def build(folder: Path, source: bytes, *options: str) -> int:
    """Build from the content of one source, of which all records may be malformed."""
    path = folder / "source.jsonl"
    path.write_bytes(source)
    out = ("--out", str(folder / "artifacts"), "--max-rejects", "100%")
    return main(["build", str(path), *out, *PLAIN, "--quiet", *options])


GOOD = encode(resource("https://good.example/x"))
LISTS = {b"%b": b"\n", b"[%b]": b",", b'{"items": [\n%b\n]}': b",\n"}
"""Forms of a list, and the separators of its items."""


@given(items, st.sampled_from(HALVES), st.sampled_from([*LISTS]))
def test_an_item_with_half_a_surrogate_pair_anywhere_is_rejected_alone_with_its_reason(
    tmp_path_factory: pytest.TempPathFactory, item: Json, half: bytes, form: bytes
) -> None:
    folder = tmp_path_factory.mktemp("build")
    faulty = [write(each, half) for each in plant(item)]
    rejects = folder / "rejects.jsonl"
    source = form % LISTS[form].join([GOOD, *faulty])
    assert build(folder, source, "--rejects", str(rejects)) == 0
    assert ids(folder / "artifacts") == ["good-example"]
    reasons = [decode(line)["reason"] for line in rejects.read_text().splitlines()]
    assert len(reasons) == len(faulty)
    expected = "holds one half of a surrogate pair, which is no character", "is not UTF-8 at byte"
    assert all(each.startswith(expected) for each in reasons)


@pytest.mark.parametrize("on_error", ["fail", "skip", "last"])
def test_a_faulty_item_of_few_is_rejected_alone_in_a_first_build_with_the_default_options(
    tmp_path: Path, on_error: str
) -> None:
    source, out = tmp_path / "source.jsonl", tmp_path / "artifacts"
    source.write_bytes(b"\n".join([GOOD, write(decode(GOOD) | {"tags": [MARK]}, HALVES[0])]))
    options = ("--on-error", on_error, *PLAIN, "--quiet")
    assert main(["build", str(source), "--out", str(out), *options]) == 0
    assert ids(out) == ["good-example"]


@given(items, st.sampled_from(OTHERS))
@example(ITEMS[-1], b"9" * 5000)
def test_no_value_of_an_item_ends_a_build(
    tmp_path_factory: pytest.TempPathFactory, item: Json, faulty: bytes
) -> None:
    folder = tmp_path_factory.mktemp("build")
    source = b"\n".join([GOOD, *(write(each, faulty) for each in plant(item))])
    assert build(folder, source) == 0
    assert "good-example" in ids(folder / "artifacts")


@pytest.mark.parametrize("faulty", HALVES + OTHERS)
@pytest.mark.parametrize("document", [X402SCAN, directory(MAPS), urls(HOST), objects(pointer())])
def test_no_value_of_a_document_ends_a_build(tmp_path: Path, document: Json, faulty: bytes) -> None:
    """Each document is a source that may fail."""
    tables = []
    for number, each in enumerate(plant(document)):
        tables.append(f'[[source]]\nname = "{number}"\npath = "{number}.json"\non_error = "skip"\n')
        (tmp_path / f"{number}.json").write_bytes(write(each, faulty))
    (tmp_path / "good.jsonl").write_bytes(GOOD)
    tables.append('[[source]]\nname = "good"\npath = "good.jsonl"\n')
    (tmp_path / "c.toml").write_text("".join(tables))
    out = ("--out", str(tmp_path / "artifacts"), "--max-rejects", "100%")
    assert main(["build", str(tmp_path / "c.toml"), *out, *PLAIN, "--quiet"]) == 0
    assert "good-example" in ids(tmp_path / "artifacts")


OVERLAYS: list[Json] = [
    {
        "good-example": {"enriched": True, "tags": ["a"], "profile": {"whenToUse": "for tides"}},
        "domain:good.example": {"name": "Good"},
        "payee:0xab": None,
        "https://good.example/x": {"profile": {"doNotUseFor": "x"}},
    },
    {"id": "good-example", "name": "Good", "profile": {"whenToUse": "for tides"}},
]


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_half_a_surrogate_pair_anywhere_in_an_overlay_is_an_error_that_names_the_place(
    tmp_path: Path, overlay: Json, half: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "overlay.json"
    for each in plant(overlay):
        path.write_bytes(b"\n" + write(each, half))
        assert build(tmp_path, GOOD, "--overlay", str(path)) == 1
        error = capsys.readouterr().err
        assert f"{path}:2: " in error
        assert "half of a surrogate pair" in error or "is not UTF-8" in error


@pytest.mark.parametrize("faulty", OTHERS)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_value_of_an_overlay_ends_a_build_without_its_place(
    tmp_path: Path, overlay: Json, faulty: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "overlay.json"
    for each in plant(overlay):
        path.write_bytes(write(each, faulty))
        status = build(tmp_path, GOOD, "--overlay", str(path))
        assert status == 0 or (status == 1 and f"{path}:" in capsys.readouterr().err)


CATALOGUE: Json = {
    "source": [
        {
            "name": "good",
            "path": "source.jsonl",
            "kind": "resources",
            "on_error": "skip",
            "hosts": ["good.example"],
            "max_removed": "10%",
            "max_age": "7d",
            "trust": 1,
        }
    ],
    "policy": {
        "max_price": 100,
        "allow_http": True,
        "deny": [{"host": "evil.example", "reason": "spam", "public": True}],
        "stablecoins": [{"network": "base", "address": "0xab", "currency": "X", "decimals": 6}],
    },
}


@pytest.mark.parametrize("faulty", HALVES + OTHERS)
def test_no_value_of_a_catalogue_file_ends_a_build_without_its_name(
    tmp_path: Path, faulty: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "source.jsonl").write_bytes(GOOD)
    path = tmp_path / "catalogue.toml"
    command = ["build", str(path), "--out", str(tmp_path / "artifacts"), *PLAIN, "--quiet"]
    for each in plant(CATALOGUE):
        lines = [
            b"%b = %b" % (write(key, faulty), inline(value, faulty)) for key, value in each.items()
        ]
        path.write_bytes(b"\n".join(lines))
        status = main(command)
        assert status in {0, 3} or (status in {1, 2} and str(path) in capsys.readouterr().err)


def inline(value: Any, faulty: bytes) -> bytes:
    """Return a value as TOML, with a faulty one in place of MARK."""
    if isinstance(value, dict):
        members = (
            b"%b = %b" % (write(key, faulty), inline(each, faulty)) for key, each in value.items()
        )
        return b"{%b}" % b", ".join(members)
    if isinstance(value, list):
        return b"[%b]" % b", ".join(inline(each, faulty) for each in value)
    return write(value, faulty)
