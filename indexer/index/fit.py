"""Learning the threshold of fits: what a catalogue answers when it lacks the right listing.

Documents are asked for by the first words of their own descriptions. The first answer of another
service that is no near-duplicate is the best of what is left, and half of these answers help.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean, median
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from service.search.fit import FitThreshold
from service.search.ranking import Ranking
from service.snapshot.snapshot import Snapshot

QUESTIONS, LEAST_QUESTIONS = 300, 20
SHORT, LONG = 2, 9  # words of a question
NEAR_DUPLICATE = 0.9  # cosine


class _Described(Struct):
    """The text of a document."""

    description: str | None = ""


class _Answered(NamedTuple):
    """The words of a question, and the fit of the first row that is not left out."""

    words: int
    fit: float


_described = msgspec.json.Decoder(_Described)


def learn_threshold(snapshot: Snapshot) -> FitThreshold | None:
    """Return the threshold of a snapshot, None where too few of its documents can be asked for."""
    asked = [*_questions(snapshot)]
    short, long = (
        [each for words, own in asked if (each := _ask(snapshot, words[:count], own))]
        for count in (SHORT, LONG)
    )
    if min(len(short), len(long)) < LEAST_QUESTIONS:
        return None
    least, most = (median(each.fit for each in own) for own in (short, long))
    fewer, words = (fmean(each.words for each in own) for own in (short, long))
    if most < 0.01:
        return None
    slope = max(most - least, 0.0) / max(words - fewer, 1.0)
    return FitThreshold(round(most, 3), round(words, 3), round(slope, 3))


def _questions(snapshot: Snapshot) -> Iterator[tuple[list[str], int]]:
    """Yield the first words of documents at even distances, and the documents."""
    header = snapshot.embedded.parser.header
    count = min(QUESTIONS, header.documents)
    for document in (np.arange(count) * header.documents // max(count, 1)).tolist():
        if document < header.endpoints:
            text = snapshot.endpoints.text(document)
        else:
            text = snapshot.summaries.text(snapshot.endpoints.service_of(document))
        words = (_described.decode(text).description or "").split(maxsplit=LONG)[:LONG]
        if len(words) > SHORT:
            yield words, document


def _ask(snapshot: Snapshot, words: list[str], document: int) -> _Answered | None:
    """Return how well the rest of the catalogue answers; None for words that ask for nothing."""
    index, service_of = snapshot.embedded.index, snapshot.endpoints.service_of
    query, vectors = snapshot.embedded.parser.parse(" ".join(words)), index.vectors
    if not query.words or (query.vector is None and vectors is not None):
        return None
    page = Ranking(index, query, by_group=True, is_filled=True).page(index.config.filled_up_to)
    is_other = np.ones(len(page.documents), np.bool_)
    if vectors is not None:
        cosines = vectors.similarities(vectors.vector_of(document), page.documents)
        is_other = cosines < NEAR_DUPLICATE
    own = service_of(document)
    for each in page.documents[is_other].tolist():
        if service_of(each) != own:
            return _Answered(query.words, index.fit(query, each))
    return _Answered(query.words, 0.0)
