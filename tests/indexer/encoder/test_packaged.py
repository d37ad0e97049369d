"""The packaged encoder, and files that are refused in its place."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from indexer.encoder.packaged import (
    PACKAGED,
    PRIOR,
    StaticEncoder,
    describe,
    load_encoder,
    load_prior,
    quantise_encoder,
    save_encoder,
)
from indexer.errors import EncoderDamaged


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in ("static.npz", "static.json", PRIOR):
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
    assert description.licence == "Apache-2.0"
    assert description.teacher.name
    origins = (description.teacher, *description.texts, *description.excluded)
    assert all(len(origin.sha256) == 64 and origin.licence for origin in origins)
    assert set(description.figures) == {"stabletoolbench", "sealtools", "metatool"}
    encoder = load_encoder()
    assert encoder.rows.shape == (len(encoder.pieces), description.dimensions)


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
    odd = StaticEncoder("", ["a", "b"], np.ones((3, 4), np.int8), np.ones(3, np.int16))
    save_encoder(copy, odd)
    redescribe(copy)
    with pytest.raises(EncoderDamaged, match="holds no encoder: 2 pieces"):
        load_encoder(copy)
    np.save(copy.with_suffix(".npy"), np.zeros(3))
    copy.write_bytes(copy.with_suffix(".npy").read_bytes())
    redescribe(copy)
    with pytest.raises(EncoderDamaged, match="cannot be read"):
        load_encoder(copy)


@pytest.mark.parametrize("damage", ["truncated", "missing", "foreign"])
def test_a_damaged_prior_is_refused(copy: Path, damage: str) -> None:
    encoder, prior = load_encoder(copy), copy.with_name(PRIOR)
    loaded = load_prior(encoder, copy)
    assert [loaded.vocabulary[number] for number in loaded.numbers.tolist()] == encoder.pieces
    assert loaded.matrix.shape == (encoder.rows.shape[1] + 384, 384)
    if damage == "missing":
        prior.unlink()
    else:
        prior.write_bytes(copy.read_bytes() if damage == "foreign" else prior.read_bytes()[:99_999])
    with pytest.raises(EncoderDamaged, match=r"prior\.npz .*install again"):
        load_prior(encoder, copy)


@pytest.mark.parametrize("text", ["", "{}", "[", '{"sha256": 1}'])
def test_a_damaged_description_is_refused(copy: Path, text: str) -> None:
    copy.with_suffix(".json").write_text(text)
    with pytest.raises(EncoderDamaged, match=r"static\.json cannot be read"):
        load_encoder(copy)


def test_the_file_is_the_same_whenever_it_is_written(tmp_path: Path) -> None:
    encoder = quantise_encoder(["a", "b"], np.array([[1, 2], [3, 4]], np.float32))
    hashes = {save_encoder(tmp_path / name, encoder) for name in ("one.npz", "other.npz")}
    assert len(hashes) == 1


def test_integers_keep_the_vectors_to_one_in_a_hundred() -> None:
    rng = np.random.default_rng(1)
    vectors = (rng.normal(size=(50, 16)) * rng.uniform(0.05, 2, (50, 1))).astype(np.float32)
    vectors[7] = 0
    pieces = [f"p{number}" for number in range(50)]
    encoder = quantise_encoder(pieces, vectors)
    assert encoder.pieces == [piece for piece in pieces if piece != "p7"]
    restored = encoder.rows * encoder.scales[:, np.newaxis].astype(np.float64)
    restored *= np.abs(vectors).max() / np.abs(restored).max()
    kept = np.delete(vectors, 7, axis=0)
    assert (np.abs(restored - kept).max(axis=1) < np.abs(kept).max(axis=1) / 100).all()
