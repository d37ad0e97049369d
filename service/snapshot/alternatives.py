"""Who else sells what an endpoint does: endpoints of other sellers that do the same.

Two descriptions say the same where one has every word of the other, and not many more: that of
another function has a word that the first lacks, and lacks one of the first. Numbers, negations and
the order about "to" and "from" may not contradict each other. Vectors find the candidates, or words
in a snapshot without vectors.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import inf
from typing import NamedTuple

import msgspec
import numpy as np

from service.conditions import EndpointFilters, fold_name
from service.engines.embedded import EmbeddedEngine
from service.prices import format_decimal
from service.schema.records import Endpoint
from service.search.postings import FULL_WEIGHT, Mask
from service.search.top_k import Scorer
from service.snapshot.data import SnapshotData
from service.urls import path_parameters

MAX_ALTERNATIVES = 10
CANDIDATES, PER_SERVICE, LEAST_SIMILARITY = 50, 3, 0.25
LEAST_WORDS, LEAST_FIT = 3, 0.5
"""Fewer words, without stop words and numbers, name no function."""

DIRECTIONS = frozenset(("to", "from", "into"))
NEGATIONS = frozenset(("no", "not", "non", "never", "without"))
READING = frozenset(("GET", "HEAD", ""))

_endpoint = msgspec.json.Decoder(Endpoint)
_word = re.compile(r"\w+")


class Alternative(NamedTuple):
    """An endpoint of another seller; an unknown price in US dollars is infinite.

    fit: the share of the words of both descriptions that both have
    """

    ordinal: int
    fit: float
    usd_price: float


def find_alternatives(
    data: SnapshotData, engine: EmbeddedEngine, ordinal: int
) -> list[Alternative]:
    """Return the endpoints of other sellers that do the same from the same parameters.

    Returns the best of each seller, the best fit first, then the cheapest. None is dead.
    """
    endpoints, own = data.endpoints, _endpoint.decode(data.endpoints.text(ordinal))
    sellers, words = endpoints.sellers, _words_of(engine, own)
    if len({*words}) < LEAST_WORDS:
        return []
    allowed = np.zeros(engine.index.documents, np.bool_)
    is_alive = endpoints.filters.arrays["alive"] >= 0
    allowed[: len(endpoints)] = is_alive & (sellers != sellers[ordinal])
    found, named = [], _names_of(own)
    for candidate in _candidates(engine, words, ordinal, allowed):
        endpoint = _endpoint.decode(endpoints.text(candidate))
        others = _words_of(engine, endpoint)
        shared, every = {*words} & {*others}, {*words} | {*others}
        fit = len(shared) / len(every)
        has_all = len(shared) in (len(words), len(others))
        is_same = len(shared) >= LEAST_WORDS and has_all and fit >= LEAST_FIT
        if not is_same or _contradict(own, endpoint, words, others):
            continue
        if _names_of(endpoint, only_required=True) <= named:
            terms = data.offers.cheapest_terms(candidate, EndpointFilters())
            price = min(inf, terms.usd_price if terms else inf)  # NaN is no less
            found.append(Alternative(candidate, round(fit, 2), price))
    found.sort(key=lambda each: (-each.fit, each.usd_price))
    of_seller: dict[int, Alternative] = {}
    for each in found:
        of_seller.setdefault(int(sellers[each.ordinal]), each)
    return [*of_seller.values()][:MAX_ALTERNATIVES]


def describe_alternatives(found: Sequence[Alternative]) -> str:
    """Return how many others do the same, and their lowest price; empty without any."""
    if not found:
        return ""
    price = min(each.usd_price for each in found)
    count = f"{len(found)} others do this" if len(found) > 1 else "1 other does this"
    return f"{count}, from {format_decimal(price)} USD" if price < inf else count


def _contradict(
    own: Endpoint, other: Endpoint, words: Sequence[int], others: Sequence[int]
) -> bool:
    """Return whether two endpoints of the same words do different things."""
    if (own.method.upper() in READING) != (other.method.upper() in READING):
        return True
    texts = [{*_word.findall((each.description or "").casefold())} for each in (own, other)]
    numbers = [{word for word in text if word.isdecimal()} for text in texts]
    if all(numbers) and numbers[0] != numbers[1]:
        return True
    if NEGATIONS.isdisjoint(texts[0]) != NEGATIONS.isdisjoint(texts[1]):
        return True
    if any(DIRECTIONS.isdisjoint(text) for text in texts):
        return False
    shared = {*words} & {*others}
    return [each for each in words if each in shared] != [each for each in others if each in shared]


def _candidates(
    engine: EmbeddedEngine, words: Sequence[int], ordinal: int, allowed: Mask
) -> list[int]:
    """Return the nearest allowed documents that have enough of the words."""
    index, weighted = engine.index, [(term, FULL_WEIGHT) for term in words]
    scorer = Scorer(index.postings.of_terms(weighted), index.documents, mask=allowed)
    if index.vectors and (vector := index.vectors.of_document(ordinal)):
        nearest = index.vectors.nearest(vector, CANDIDATES, PER_SERVICE, LEAST_SIMILARITY, allowed)
    else:
        nearest = scorer.top(CANDIDATES).ordinals
    shared = np.count_nonzero(scorer.impacts_at(nearest), axis=0)
    likely: list[int] = nearest[shared >= LEAST_FIT * len(words)].tolist()
    return likely


def _words_of(engine: EmbeddedEngine, endpoint: Endpoint) -> list[int]:
    """Return the distinct terms of a description, in order, without stop words and numbers."""
    words = engine.parser.parse(endpoint.description or "").expansions
    telling = (each for each in words if each.required and not each.word.isdecimal())
    return [each.terms[0][0] for each in telling if each.is_known]


def _names_of(endpoint: Endpoint, *, only_required: bool = False) -> set[str]:
    """Return the folded names of the parameters of an endpoint."""
    parameters = endpoint.parameters or []
    names = (each.name for each in parameters if each.required is True or not only_required)
    return {*map(fold_name, [*names, *path_parameters(endpoint.url)])}
