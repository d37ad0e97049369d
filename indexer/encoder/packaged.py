"""The encoder that the package carries, in one data file with a description beside it."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from indexer.encoder.encoding import open_pieces
from indexer.errors import EncoderDamaged
from service.storage.container import Arrays, write_arrays

PACKAGED = Path(__file__).with_name("static.npz")


class TrainingFile(Struct):
    """A file that an encoder was trained with."""

    name: str
    sha256: str
    licence: str


class EncoderDescription(Struct):
    """The description of an encoder, beside its data file: where it comes from, and how good it is.

    `figures` are the nDCG@10 of the hybrid ranking with it, by the name of the judged set.
    """

    sha256: str
    dimensions: int
    licence: str
    teacher: TrainingFile
    texts: list[TrainingFile]
    excluded: list[TrainingFile]
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


_description = msgspec.json.Decoder(EncoderDescription)


def describe(path: Path = PACKAGED) -> EncoderDescription:
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
    try:
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != sha256:
            raise EncoderDamaged(
                f"{path} is not the file that {path.stem}.json describes; install again"
            )
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            pieces = arrays["pieces"].tobytes().decode().splitlines()
            rows, scales = arrays["rows"], arrays["scales"]
    except (OSError, ValueError, KeyError, TypeError, BadZipFile) as error:
        raise EncoderDamaged(f"{path} cannot be read: {error}; install again") from error
    return StaticEncoder(f"{path.stem} {sha256[:16]}", pieces, rows, scales)


def write_encoder(path: Path, encoder: StaticEncoder) -> None:
    """Write the file of an `Encoder` into a snapshot."""
    open_pieces.cache_clear()  # those of an earlier build's encoder at this path
    pieces = np.frombuffer("\n".join(encoder.pieces).encode(), np.uint8)
    columns: Arrays = {"pieces": pieces, "rows": encoder.rows, "scales": encoder.scales}
    write_arrays(path, columns)
