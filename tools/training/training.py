"""Training the packaged encoder: fitted to a transformer, then for finding a text by another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from indexer.encoder.encoding import PieceNumbers
from service.search.semantic.encoder import CONTINUATION
from tools.training.ridge import fit, mean_matrix, smooth_inverse_frequency
from tools.training.texts import Pair
from tools.training.transformer import Floats, Transformer

Word = tuple[int, ...]
"""The numbers of the pieces of a word."""
Example = tuple[list[Word], list[Word]]


class Parameters(Struct, frozen=True):
    """The parameters of the training; a seed and the same texts give the same encoder.

    strength, iterations: of the ridge regression
    dimensions: of the vectors
    epochs, batch, rate: of Adam, whose rate falls to 0
    temperature: by which similarities are divided before the softmax
    moved: share of the words of a text that a second pair takes as a query for the rest
    apis, operations: how often an epoch has those pairs; it has packages once
    runs: of the training, each in another random order; their vectors are averaged
    share: of the trained vectors in the average with the fitted ones
    """

    strength: float = 0.1
    iterations: int = 8
    dimensions: int = 128
    epochs: int = 6
    batch: int = 1024
    rate: float = 0.003
    temperature: float = 0.1
    moved: float = 0.4
    apis: int = 5
    operations: int = 2
    runs: int = 3
    share: float = 0.6
    most_title: int = 30  # words
    most_text: int = 60
    seed: int = 0


class Texts(NamedTuple):
    """The pairs to train with."""

    packages: list[Pair]
    apis: list[Pair]
    operations: list[Pair]


Report = Callable[[str], None]


def train(
    texts: Texts,
    transformer: Transformer,
    vocabulary: Sequence[str],
    parameters: Parameters,
    report: Report,
) -> Floats:
    """Return trained vectors of the pieces of a vocabulary, float32[pieces, dimensions].

    First they are fitted to the vectors that a transformer gives the packages, then to those of all
    texts, and reduced to their principal components; these are averaged with vectors that were
    trained from them to find a text of a pair by the other.
    """
    numbers = _numbers(vocabulary)
    fitted = _fit_to(transformer, texts, vocabulary, parameters, report)
    _, components = np.linalg.eigh(fitted.T @ fitted)
    reduced = fitted @ components[:, ::-1][:, : parameters.dimensions]
    reduced /= _root_mean_square(reduced)
    examples = {
        "packages": _examples(texts.packages, numbers, parameters),
        "apis": _examples(texts.apis, numbers, parameters) * parameters.apis,
        "operations": _examples(texts.operations, numbers, parameters) * parameters.operations,
    }
    runs = [
        _train_to_find(
            reduced, examples, parameters, np.random.default_rng((parameters.seed, run)), report
        )
        for run in range(parameters.runs)
    ]
    trained = np.mean(runs, axis=0)
    vectors: Floats = parameters.share * trained + (1 - parameters.share) * reduced
    return vectors


def _fit_to(
    transformer: Transformer,
    texts: Texts,
    vocabulary: Sequence[str],
    parameters: Parameters,
    report: Report,
) -> Floats:
    """Return vectors that are fitted to a transformer, whose vectors of pieces are their prior."""
    pieces = transformer.embed_pieces(range(len(vocabulary)))
    numbers = _numbers(vocabulary)
    packages = [f"{title}. {text}" for title, text in texts.packages]
    others = [f"{title}. {text}" for title, text in (*texts.apis, *texts.operations)]
    report(f"embedding {len(packages)} packages and {len(others)} other texts")
    targets = transformer.embed([*packages, *others])
    words = (_words(text, numbers, parameters.most_text) for text in (*packages, *others))
    means = mean_matrix([list(chain.from_iterable(each)) for each in words], len(pieces))
    of_packages = means[: len(packages)]
    weights = smooth_inverse_frequency(of_packages)
    weights[[not _is_encoded(piece) for piece in vocabulary]] = 0
    report("fitting")
    strength, iterations = parameters.strength, parameters.iterations
    prior = pieces * weights[:, np.newaxis]
    prior = fit(of_packages, targets[: len(packages)], prior, strength, iterations)
    return fit(means, targets, prior, strength, iterations)


def _root_mean_square(vectors: Floats) -> float:
    """Return the root mean square of the lengths of vectors, zeros apart."""
    squares = np.square(vectors).sum(axis=1)
    return float(np.sqrt(squares[squares > 0].mean()))


def _train_to_find(
    vectors: Floats,
    examples: Mapping[str, list[Example]],
    parameters: Parameters,
    rng: np.random.Generator,
    report: Report,
) -> Floats:
    """Train vectors so that the mean of a text is nearest to that of the other text of its pair.

    The loss is the cross-entropy of a softmax over the batch, in both directions (InfoNCE; van den
    Oord et al., 2018).
    """
    optimiser = _Adam(vectors, parameters)
    count, batch = len(vectors), parameters.batch
    for epoch in range(parameters.epochs):
        pairs = _pairs_of_epoch(examples, rng, parameters.moved)
        steps = len(pairs) // batch
        titles = mean_matrix([list(chain.from_iterable(title)) for title, _ in pairs], count)
        others = mean_matrix([list(chain.from_iterable(text)) for _, text in pairs], count)
        losses = []
        for step in range(steps):
            rows = slice(step * batch, (step + 1) * batch)
            title, other = titles[rows], others[rows]
            loss, gradients = _loss(
                title @ optimiser.vectors, other @ optimiser.vectors, parameters.temperature
            )
            losses.append(loss)
            progress = (epoch + step / steps) / parameters.epochs
            optimiser.step(title.T @ gradients[0] + other.T @ gradients[1], 1 - progress)
        report(f"epoch {epoch + 1}: {len(pairs)} pairs, loss {np.mean(losses):.4f}")
    return optimiser.vectors


class _Adam:
    """The optimiser Adam (Kingma and Ba, 2015)."""

    FIRST, SECOND = 0.9, 0.999

    def __init__(self, vectors: Floats, parameters: Parameters) -> None:
        self.vectors = vectors.copy()
        self._rate = parameters.rate
        self._first, self._second = np.zeros_like(vectors), np.zeros_like(vectors)
        self._steps = 0

    def step(self, gradient: Floats, share: float) -> None:
        """Take a step, by this share of the rate."""
        self._steps += 1
        self._first += (1 - self.FIRST) * (gradient - self._first)
        self._second += (1 - self.SECOND) * (gradient**2 - self._second)
        correction = np.sqrt(1 - self.SECOND**self._steps) / (1 - self.FIRST**self._steps)
        rate = np.float32(self._rate * share * correction)
        self.vectors -= rate * self._first / (np.sqrt(self._second) + np.float32(1e-8))


def _loss(left: Floats, right: Floats, temperature: float) -> tuple[float, tuple[Floats, Floats]]:
    """Return the loss of a batch, and its gradients by both sides."""
    lengths = [np.linalg.norm(each, axis=1, keepdims=True) + 1e-6 for each in (left, right)]
    left, right = left / lengths[0], right / lengths[1]
    scores = np.exp((left @ right.T - 1) / np.float32(temperature))
    by_row = scores / scores.sum(axis=1, keepdims=True)
    by_column = scores / scores.sum(axis=0, keepdims=True)
    loss = -np.log(np.maximum(np.diag(by_row), 1e-20)).mean()
    gradient = (by_row + by_column) / 2
    gradient[np.diag_indices(len(left))] -= 1
    gradient /= np.float32(len(left) * temperature)
    return float(loss), (
        _through_scaling(gradient @ right, left, lengths[0]),
        _through_scaling(gradient.T @ left, right, lengths[1]),
    )


def _through_scaling(gradient: Floats, scaled: Floats, lengths: Floats) -> Floats:
    """Return the gradient by vectors, of the gradient by the vectors scaled to length 1."""
    along = (gradient * scaled).sum(axis=1, keepdims=True)
    result: Floats = (gradient - scaled * along) / lengths
    return result


def _pairs_of_epoch(
    examples: Mapping[str, list[Example]], rng: np.random.Generator, moved: float
) -> list[Example]:
    """Return the examples in random order, each also with some words of its text as the query."""
    pairs: list[Example] = []
    for title, text in chain.from_iterable(examples.values()):
        pairs.append((title, text))
        is_moved = rng.random(len(text)) < moved
        query = [word for word, move in zip(text, is_moved, strict=True) if move]
        rest = title + [word for word, move in zip(text, is_moved, strict=True) if not move]
        if query and rest:
            pairs.append((query, rest))
    order: npt.NDArray[np.int64] = rng.permutation(len(pairs))
    return [pairs[number] for number in order.tolist()]


def _examples(
    pairs: Sequence[Pair], numbers: PieceNumbers, parameters: Parameters
) -> list[Example]:
    """Return pairs as words, without those of which a side has none."""
    examples = (
        (
            _words(title, numbers, parameters.most_title),
            _words(text, numbers, parameters.most_text),
        )
        for title, text in pairs
    )
    return [example for example in examples if all(example)]


def _words(text: str, numbers: PieceNumbers, most: int) -> list[Word]:
    """Return the pieces of the first words of a text."""
    words = chain.from_iterable(map(numbers.words_of, text.split()))
    return [word for word in words if word][:most]


def _numbers(vocabulary: Sequence[str]) -> PieceNumbers:
    return PieceNumbers({piece: number for number, piece in enumerate(vocabulary)})


def _is_encoded(piece: str) -> bool:
    """Return whether words of English letters have the piece."""
    letters = piece.removeprefix(CONTINUATION)
    return letters.isascii() and letters.isalpha() and letters.islower()
