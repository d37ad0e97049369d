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

from indexer.encoder.encoding import open_pieces
from indexer.errors import EncoderDamaged
from service.arrays.container import Arrays, write_arrays
from service.schema.values import Json

PACKAGED = Path(__file__).with_name("static.npz")


class StaticEncoder(NamedTuple):
    """Word pieces, and their vectors.

    `rows` is int8[pieces, dimensions], to be multiplied by `scales`, int16[pieces]. `name` has a
    hash: encoders of one name encode alike.
    """

    name: str
    pieces: list[str]
    rows: npt.NDArray[np.int8]
    scales: npt.NDArray[np.int16]


def describe(path: Path = PACKAGED) -> Json:
    """Return the description beside the data file of an encoder; raises EncoderDamaged.

    It says where the encoder comes from; `figures` are the nDCG@10 of the hybrid ranking with it.
    """
    description = path.with_suffix(".json")
    try:
        content = msgspec.json.decode(description.read_bytes(), type=Json)
        msgspec.convert(content["sha256"], str)
    except (OSError, KeyError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise EncoderDamaged(f"{description} cannot be read: {error}; install again") from error
    return content


def load_encoder(path: Path = PACKAGED) -> StaticEncoder:
    """Read the data file of an encoder, checked against the hash of its description.

    Raises EncoderDamaged.
    """
    sha256 = describe(path)["sha256"]
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
