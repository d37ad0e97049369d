"""The packaged encoder, and files that are refused in its place."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from indexer.encoder.packaged import PACKAGED, describe, load_encoder
from indexer.errors import EncoderDamaged
from tests.support.running import service, write_lines
from tests.tools.training.test_training import EXTRA
from tools.training.saving import quantise_encoder, save_encoder


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in ("static.npz", "static.json"):
        shutil.copy(PACKAGED.with_name(name), tmp_path)
    return tmp_path / "static.npz"


def redescribe(path: Path) -> None:
    """Write the hash of a changed file into its description."""
    description = path.with_suffix(".json")
    fields = json.loads(description.read_bytes())
    fields["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    description.write_text(json.dumps(fields))


def test_the_packaged_encoder_is_small_and_says_where_it_comes_from() -> None:
    assert PACKAGED.stat().st_size <= 5_000_000
    description = describe()
    assert description["licence"] == "Apache-2.0"
    assert description["teacher"]["name"]
    origins = (description["teacher"], *description["texts"], *description["excluded"])
    assert all(len(origin["sha256"]) == 64 and origin["licence"] for origin in origins)
    assert set(description["figures"]) == {"stabletoolbench", "sealtools", "metatool"}
    encoder = load_encoder()
    assert encoder.rows.shape == (len(encoder.pieces), description["dimensions"])


def test_the_package_has_no_other_data_file() -> None:
    names = {path.name for path in PACKAGED.parent.iterdir() if path.is_file()}
    assert {name for name in names if not name.endswith(".py")} == {"static.npz", "static.json"}


def test_a_build_needs_nothing_of_the_training(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "source.jsonl", [service()])
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({['tools', *EXTRA]})); "
        "from indexer.__main__ import main; sys.exit(main())"
    )
    command = [sys.executable, "-c", code, "build", source, "--out", str(tmp_path / "out")]
    run = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["encoder"] == load_encoder().name


@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing", "foreign"])
def test_a_damaged_file_is_refused_by_its_hash(copy: Path, damage: str) -> None:
    content = bytearray(copy.read_bytes())
    if damage == "missing":
        copy.unlink()
    elif damage == "foreign":
        save_encoder(copy, quantise_encoder(["a"], np.ones((1, 128), np.float32)))
    else:
        content[len(content) // 2] ^= 1
        copy.write_bytes(content[: len(content) // 2] if damage == "truncated" else content)
    with pytest.raises(EncoderDamaged, match="install again"):
        load_encoder(copy)


def test_a_file_that_is_no_encoder_is_refused_though_its_hash_is_right(copy: Path) -> None:
    copy.write_bytes(b"no archive")
    redescribe(copy)
    with pytest.raises(EncoderDamaged, match="cannot be read"):
        load_encoder(copy)
    with copy.open("wb") as file:
        np.savez(file, pieces=np.zeros(1, np.uint8), rows=np.array([{}], object))
    redescribe(copy)
    with pytest.raises(EncoderDamaged, match="cannot be read"):
        load_encoder(copy)
    np.save(copy.with_suffix(".npy"), np.zeros(3))
    copy.write_bytes(copy.with_suffix(".npy").read_bytes())
    redescribe(copy)
    with pytest.raises(EncoderDamaged, match="cannot be read"):
        load_encoder(copy)


@pytest.mark.parametrize("text", ["", "{}", "[", '{"sha256": 1}'])
def test_a_damaged_description_is_refused(copy: Path, text: str) -> None:
    copy.with_suffix(".json").write_text(text)
    with pytest.raises(EncoderDamaged, match=r"static\.json cannot be read"):
        load_encoder(copy)
