"""The encoder that the package carries, in one data file with a description beside it."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from indexer.errors import EncoderDamaged
from service.errors import SnapshotDamaged
from service.search.semantic.encoder import LARGEST, LARGEST_SCALE, check_encoder, scale_rows

PACKAGED = Path(__file__).with_name("static.npz")
PRIOR = "prior.npz"
"""The file of the `Prior`, beside that of the encoder."""


class Origin(Struct):
    """A file that an encoder was trained with."""

    name: str
    sha256: str
    licence: str


class Description(Struct):
    """The description of an encoder, beside its data file: where it comes from, and how good it is.

    `prior_sha256` is the hash of the file of the `Prior`. `figures` are the nDCG@10 of the hybrid
    ranking with it, by the name of the judged set.
    """

    sha256: str
    prior_sha256: str
    dimensions: int
    licence: str
    teacher: Origin
    texts: list[Origin]
    excluded: list[Origin]
    training: dict[str, float | int]
    figures: dict[str, float]


class StaticEncoder(NamedTuple):
    """Word pieces, and their vectors.

    `rows` is int8[pieces, dimensions], to be multiplied by `scales`, int16[pieces]. `name` has a
    hash: encoders of one name encode alike.
    """

    name: str
    pieces: list[str]
    rows: npt.NDArray[np.int8]
    scales: npt.NDArray[np.int16]

    def vectors(self) -> npt.NDArray[np.float32]:
        """Return the vectors of the pieces, float32[pieces, dimensions]."""
        return scale_rows(self.rows, self.scales).astype(np.float32)


class Prior(NamedTuple):
    """The vocabulary of the transformer, and the parameters of `expand_prior`.

    `numbers`, int32[pieces], are those of the pieces of the encoder in the vocabulary, `weights`,
    float16[pieces], their weights, and `matrix` is float16[columns, dimensions].
    """

    vocabulary: list[str]
    numbers: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float16]
    matrix: npt.NDArray[np.float16]


_description = msgspec.json.Decoder(Description)


def describe(path: Path = PACKAGED) -> Description:
    """Return the description of an encoder; raises EncoderDamaged."""
    description = path.with_suffix(".json")
    try:
        return _description.decode(description.read_bytes())
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise EncoderDamaged(f"{description} cannot be read: {error}; install again") from error


def load_encoder(path: Path = PACKAGED) -> StaticEncoder:
    """Read the data file of an encoder, checked against the hash and the shape of its description.

    Raises EncoderDamaged.
    """
    sha256 = describe(path).sha256
    arrays = _load(path, path.stem, sha256, ("pieces", "rows", "scales"))
    try:
        pieces = arrays["pieces"].tobytes().decode().splitlines()
        check_encoder(path, arrays["rows"], arrays["scales"], len(pieces))
    except (ValueError, SnapshotDamaged) as error:
        raise EncoderDamaged(f"{path} cannot be read: {error}; install again") from error
    name = f"{path.stem} {sha256[:16]}"
    return StaticEncoder(name, pieces, arrays["rows"], arrays["scales"])


def load_prior(encoder: StaticEncoder, path: Path = PACKAGED) -> Prior:
    """Read the prior beside the data file of an encoder, checked against its hash.

    Raises EncoderDamaged.
    """
    prior = path.with_name(PRIOR)
    arrays = _load(
        prior, path.stem, describe(path).prior_sha256, ("vocabulary", "weights", "matrix")
    )
    vocabulary = arrays["vocabulary"].tobytes().decode().splitlines()
    positions = {piece: number for number, piece in enumerate(vocabulary)}
    try:
        numbers = np.array([positions[piece] for piece in encoder.pieces], np.int32)
    except KeyError as error:
        raise EncoderDamaged(f"{prior} has no piece {error}; install again") from error
    return Prior(vocabulary, numbers, arrays["weights"][numbers], arrays["matrix"])


def _load(
    path: Path, described: str, sha256: str, names: Sequence[str]
) -> dict[str, npt.NDArray[Any]]:
    """Read arrays of a data file that has a hash; raises EncoderDamaged."""
    try:
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != sha256:
            raise EncoderDamaged(
                f"{path} is not the file that {described}.json describes; install again"
            )
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in names}
    except (OSError, ValueError, KeyError, TypeError, BadZipFile) as error:
        raise EncoderDamaged(f"{path} cannot be read: {error}; install again") from error


def save_encoder(path: Path, encoder: StaticEncoder) -> str:
    """Write the data file of an encoder; returns its SHA-256."""
    return _save(path, pieces=_lines(encoder.pieces), rows=encoder.rows, scales=encoder.scales)


def save_prior(
    path: Path,
    vocabulary: Sequence[str],
    weights: npt.NDArray[np.float32],
    matrix: npt.NDArray[np.float32],
) -> str:
    """Write the prior of an encoder: `weights` of the whole vocabulary; returns its SHA-256."""
    halves = {"weights": weights.astype(np.float16), "matrix": matrix.astype(np.float16)}
    return _save(path, vocabulary=_lines(vocabulary), **halves)


def _save(path: Path, **arrays: npt.NDArray[Any]) -> str:
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # allow_pickle is no name of ours
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _lines(texts: Sequence[str]) -> npt.NDArray[np.uint8]:
    return np.frombuffer("\n".join(texts).encode(), np.uint8)


def write_encoder(folder: Path, encoder: StaticEncoder) -> None:
    """Write the files of an `Encoder` into a snapshot."""
    folder.mkdir(parents=True)
    (folder / "pieces.txt").write_text("\n".join(encoder.pieces), encoding="utf-8")
    np.save(folder / "rows.npy", encoder.rows)
    np.save(folder / "scales.npy", encoder.scales)


def quantise_encoder(vocabulary: Sequence[str], vectors: npt.NDArray[np.float32]) -> StaticEncoder:
    """Return an encoder of these vectors of pieces, float32[pieces, dimensions], in integers.

    Pieces without a vector are left out.
    """
    largest = np.abs(vectors).max(axis=1)
    numbers = np.flatnonzero(largest)
    unit = largest.max() / (LARGEST * LARGEST_SCALE)
    scales = np.clip(np.ceil(largest[numbers] / (LARGEST * unit)), 1, LARGEST_SCALE)
    rows = np.rint(vectors[numbers] / (scales * unit)[:, np.newaxis])
    pieces = [vocabulary[number] for number in numbers.tolist()]
    return StaticEncoder("", pieces, rows.astype(np.int8), scales.astype(np.int16))
