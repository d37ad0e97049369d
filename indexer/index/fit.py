"""Learning the threshold of fits: what a catalogue answers when it lacks the right listing."""

from __future__ import annotations

import msgspec
import numpy as np

from indexer.untrusted import raw_members
from service.schema.values import NULL
from service.search.ranking import Ranking
from service.snapshot.snapshot import Snapshot

DOCUMENTS, LEAST_QUESTIONS, LEAST_WORDS, MOST_WORDS = 150, 20, 3, 7
QUANTILE = 0.3
LEAST_THRESHOLD = 0.1
NEAR_DUPLICATE = 0.9  # cosine


def learn_threshold(snapshot: Snapshot) -> float | None:
    """Return the threshold of a snapshot, None where too few of its documents can be asked for.

    Documents at even distances are asked for by the first words of their descriptions. The first
    answer of another service that is no near-duplicate stands for the worst that still helps.
    """
    header, fits = snapshot.embedded.parser.header, list[float]()
    count = min(DOCUMENTS, header.documents)
    for document in (number * header.documents // count for number in range(count)):
        if document < header.endpoints:
            text = snapshot.endpoints.text(document)
        else:
            text = snapshot.summaries.text(snapshot.endpoints.service_of(document))
        description = msgspec.json.decode(raw_members(text).get("description", NULL))
        words = (description or "").split(maxsplit=MOST_WORDS)
        if len(words) >= LEAST_WORDS:
            fits += _ask(snapshot, " ".join(words[:MOST_WORDS]), document)
    if len(fits) < LEAST_QUESTIONS:
        return None
    return max(round(float(np.quantile(fits, QUANTILE)), 3), LEAST_THRESHOLD)


def _ask(snapshot: Snapshot, words: str, document: int) -> list[float]:
    """Return how well the rest of the catalogue answers; nothing if the words ask for nothing."""
    index, service_of = snapshot.embedded.index, snapshot.endpoints.groups.of_document
    query, vectors = snapshot.embedded.parser.parse(words), index.vectors
    if not query.expansions or (query.vector is None and vectors is not None):
        return []
    page = Ranking(index, query, by_group=True, is_filled=True).page(index.config.filled_up_to)
    is_other = service_of.take(page.documents) != service_of[document]
    if vectors is not None and (vector := vectors.of_document(document)):
        is_other &= vectors.similarities(vector, page.documents) < NEAR_DUPLICATE
    best = page.documents[is_other][:1].tolist()
    return [index.score(query, each) / query.reach for each in best] or [0.0]
