"""Builds whose documents a transformer embeds: queries meet them, once embedded is enough."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import indexer.build
from indexer.__main__ import main
from indexer.build import build_snapshot
from indexer.encoder import parameters
from indexer.encoder.packaged import StaticEncoder, load_encoder
from indexer.encoder.parameters import EXTRA
from indexer.options import BuildOptions, EncoderKind, default_ranking
from indexer.report import Report
from service.snapshot.snapshot import open_snapshot
from tests.support.running import Json, endpoint, service, write_lines

needs_extra = pytest.mark.skipif(
    not all(map(find_spec, EXTRA)), reason="the extra `semantic` is not installed"
)
WORDS = """weather forecast rain music song player money payment currency hotel room sanctions
wallet coming days play title reserve screen lists"""
TEXTS = {
    "sky": ("Skyline", "Rain and temperature for the coming days"),
    "tune": ("Tuner", "Play a song by its title"),
    "inn": ("Innkeeper", "Reserve a hotel room"),
    "watch": ("Watchlist", "Screen a wallet against lists of sanctions"),
}


def records() -> list[Json]:
    return [
        service(
            name,
            name=title,
            description=text,
            endpoints=[{**endpoint(), "description": text, "url": f"https://{name}.example/get"}],
        )
        for name, (title, text) in TEXTS.items()
    ]


@pytest.fixture(autouse=True)
def few_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let builds know the words of these tests alone: to embed all pieces takes half a minute."""
    whole = load_encoder()
    words = set(WORDS.split())
    numbers = [number for number, piece in enumerate(whole.pieces) if piece in words]
    assert len(numbers) > 15
    pieces = [whole.pieces[number] for number in numbers]
    few = StaticEncoder(whole.name, pieces, whole.rows[numbers], whole.scales[numbers])
    monkeypatch.setattr(indexer.build, "load_encoder", lambda: few)


def build(
    folder: Path, documents: list[Json], out: str = "artifacts", jobs: int | None = None
) -> Report:
    source = folder / "source.json"
    source.write_text(json.dumps(documents))
    return build_snapshot(
        BuildOptions(
            sources=(str(source),),
            out=folder / out,
            ranking=default_ranking(EncoderKind.TRANSFORMER),
            embeddings=folder / f"{out}.db",
            jobs=jobs,
        )
    )


def files(folder: Path) -> dict[str, bytes]:
    snapshot = folder / "snapshots" / (folder / "CURRENT").read_text().strip()
    return {
        path.relative_to(snapshot).as_posix(): path.read_bytes()
        for path in snapshot.rglob("*")
        if path.is_file() and "segments" not in path.parts and path.name != "manifest.json"
    }


@needs_extra
def test_queries_meet_what_the_transformer_says_is_alike(tmp_path: Path) -> None:
    report = build(tmp_path, records())
    assert report.encoder.startswith("transformer ")
    snapshot = open_snapshot(tmp_path / "artifacts")
    for query, best in (("weather forecast", "sky"), ("music", "tune"), ("room", "inn")):
        assert snapshot.search(query).ids[0] == best
    assert not {word for _, text in TEXTS.values() for word in text.split()} & {"weather", "music"}


@needs_extra
def test_the_second_build_embeds_what_is_new_and_has_the_bytes_of_a_first(tmp_path: Path) -> None:
    changed = [*records(), service("pay", name="Payer", description="Send a payment")]
    build(tmp_path, records())
    build(tmp_path, changed)
    build(tmp_path, changed, "other", jobs=1)
    second, first = files(tmp_path / "artifacts"), files(tmp_path / "other")
    assert second.keys() == first.keys()
    assert [name for name in first if first[name] != second[name]] == []


@needs_extra
@pytest.mark.parametrize("odd", [[], [service("odd", name="!", description="天气 \u0000 " * 9999)]])
def test_an_empty_catalogue_and_odd_texts_are_harmless(tmp_path: Path, odd: list[Json]) -> None:
    build(tmp_path, odd)
    assert open_snapshot(tmp_path / "artifacts").search("weather").total == 0


@needs_extra
def test_the_encoder_is_part_of_the_id(tmp_path: Path) -> None:
    fitted = build(tmp_path, records())
    static = build_snapshot(
        BuildOptions(sources=(str(tmp_path / "source.json"),), out=tmp_path / "static")
    )
    assert static.encoder.startswith("static ")
    assert static.snapshot != fitted.snapshot
    assert build(tmp_path, records()).changed is False


def test_without_the_extra_the_build_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parameters, "find_spec", lambda _: None)
    source = write_lines(tmp_path / "source.jsonl", records())
    assert main(["build", source, "--out", str(tmp_path / "out"), "--encoder", "transformer"]) == 2
    assert "install `ratecard[semantic]`" in capsys.readouterr().err


def test_a_default_build_needs_nothing_of_the_extra(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "source.jsonl", records())
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({list(EXTRA)})); "
        "from indexer.__main__ import main; sys.exit(main())"
    )
    command = [sys.executable, "-c", code, "build", source, "--out", str(tmp_path / "out")]
    run = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["encoder"].startswith("static ")
