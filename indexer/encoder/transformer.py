"""The transformer that encoders are fitted to: MiniLM, in ONNX, from the extra `semantic`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from onnxruntime import InferenceSession, SessionOptions
from tokenizers.implementations import BertWordPieceTokenizer

from indexer.progress import Advance

DIMENSIONS = 384
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

    def embed(self, texts: Sequence[str], advance: Advance = lambda _: None) -> Floats:
        """Return the vectors of texts, of length 1: float32[texts, 384].

        Texts of about one length are computed together, as shorter ones are padded.
        """
        pieces = [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]
        return self._by_length(pieces, advance)

    def embed_pieces(self, count: int) -> Floats:
        """Return the vectors of the first pieces of the vocabulary, each a text of its own."""
        first, last = self._ends
        return self._by_length([[first, number, last] for number in range(count)], lambda _: None)

    def _by_length(self, texts: Sequence[Sequence[int]], advance: Advance) -> Floats:
        vectors = np.empty((len(texts), DIMENSIONS), np.float32)
        order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            vectors[batch] = self._run([texts[number] for number in batch])
            advance(len(batch))
        return vectors

    def _run(self, texts: Sequence[Sequence[int]]) -> Floats:
        """Return the mean of the last hidden states of each text, scaled to length 1."""
        numbers = np.zeros((len(texts), max(map(len, texts))), np.int64)
        mask = np.zeros_like(numbers)
        for row, pieces in enumerate(texts):
            numbers[row, : len(pieces)] = pieces
            mask[row, : len(pieces)] = 1
        inputs = {
            "input_ids": numbers,
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(numbers),
        }
        (states,) = self._session.run(None, inputs)
        sums: Floats = (states * mask[:, :, np.newaxis]).sum(axis=1)
        return scale(sums)


def scale(vectors: Floats) -> Floats:
    """Return vectors scaled to length 1; a vector of zeros stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Floats = vectors / np.maximum(lengths, 1e-9)
    return scaled
