"""The data file of the packaged encoder: reproducible, and near to the trained vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tools.training.saving import quantise_encoder, save_encoder


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
