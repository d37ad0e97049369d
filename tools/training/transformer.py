"""The transformer that the encoder is fitted to: MiniLM, in ONNX, from the extra `training`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
from onnxruntime import InferenceSession, SessionOptions
from tokenizers.implementations import BertWordPieceTokenizer

EMBEDDED = 384
"""Dimensions of the vectors of the transformer."""
BATCH = 32  # texts
START, END = "[CLS]", "[SEP]"

Floats = npt.NDArray[np.float32]


class Transformer:
    """Embeds texts by a sentence transformer in ONNX.

    `vocabulary` are its word pieces in order. Of each text the first `most_pieces` count.
    """

    def __init__(
        self, model: Path, vocabulary: Sequence[str], most_pieces: int, threads: int
    ) -> None:
        numbers = {piece: number for number, piece in enumerate(vocabulary)}
        self._ends = (numbers[START], numbers[END])
        self._tokenizer = BertWordPieceTokenizer(numbers, lowercase=True)
        self._tokenizer.enable_truncation(most_pieces + len(self._ends))
        options = SessionOptions()
        options.intra_op_num_threads = threads
        self._session = InferenceSession(model, options)

    def embed(self, texts: Sequence[str]) -> Floats:
        """Return the vectors of texts, of length 1: float32[texts, EMBEDDED]."""
        pieces = [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]
        return self._by_length(pieces)

    def embed_pieces(self, numbers: Iterable[int]) -> Floats:
        """Return the vectors of pieces of the vocabulary, each a text of its own."""
        first, last = self._ends
        return self._by_length([[first, number, last] for number in numbers])

    def _by_length(self, texts: Sequence[Sequence[int]]) -> Floats:
        """Compute texts of one length together: a padded text has other bits."""
        vectors = np.empty((len(texts), EMBEDDED), np.float32)
        by_length = sorted(range(len(texts)), key=lambda number: len(texts[number]))
        for _, group in groupby(by_length, key=lambda number: len(texts[number])):
            while batch := list(islice(group, BATCH)):
                vectors[batch] = self._run([texts[number] for number in batch])
        return vectors

    def _run(self, texts: Sequence[Sequence[int]]) -> Floats:
        """Return the mean of the last hidden states of each text, scaled to length 1."""
        numbers = np.array(texts, np.int64)
        inputs = {
            "input_ids": numbers,
            "attention_mask": np.ones_like(numbers),
            "token_type_ids": np.zeros_like(numbers),
        }
        (states,) = self._session.run(None, inputs)
        sums: Floats = states.sum(axis=1)
        return _scale(sums)


def _scale(vectors: Floats) -> Floats:
    """Return vectors scaled to length 1; a vector of zeros stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Floats = vectors / np.maximum(lengths, 1e-9)
    return scaled
