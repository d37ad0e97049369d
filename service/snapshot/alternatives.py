"""Who else sells what an endpoint does: endpoints of other sellers that do the same.

Two descriptions say the same where one has every word of the other, and not many more: that of
another function has a word that the first lacks, and lacks one of the first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import compress, pairwise
from math import inf
from typing import NamedTuple

import msgspec
import numpy as np

from service.conditions import EndpointFilters, fold_name
from service.engines.embedded import EmbeddedEngine
from service.prices import format_decimal
from service.schema.records import Endpoint
from service.search.analysis import query_words, term_of, words_of
from service.search.groups import is_among_first
from service.search.stopwords import STOP_WORDS
from service.search.top_k import Scorer
from service.snapshot.data import SnapshotData
from service.urls import path_parameters

MAX_ALTERNATIVES = 10
CANDIDATES, PER_SELLER, COMPARED = 1000, 3, 50
MAX_TEXT = 2000  # characters of a description that are compared
LEAST_WORDS, LEAST_FIT = 3, 0.5
DIRECTIONS = frozenset(("to", "from", "into", "before", "after", "above", "below"))
NEGATIONS = frozenset(("no", "not", "non", "never", "without"))
IGNORED = STOP_WORDS - DIRECTIONS - NEGATIONS
READING = frozenset(("GET", "HEAD", ""))

_endpoint = msgspec.json.Decoder(Endpoint)
_untelling = re.compile(r"\d+|access|api|content|paid|pai|payment|protect|resourc|servic|usdc")
"""Terms that name no function: any paid endpoint may have them."""


class Alternative(NamedTuple):
    """An endpoint of another seller; a price in US dollars that is unknown or 0 is infinite.

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
    endpoints, found = data.endpoints, list[Alternative]()
    own, payees = _endpoint.decode(endpoints.text(ordinal)), data.offers.payees(ordinal)
    words = _words_of(own)
    for candidate in _candidates(data, engine, ordinal, own.description or ""):
        other = _endpoint.decode(endpoints.text(candidate))
        is_other = payees.isdisjoint(data.offers.payees(candidate)) and _can_stand_in(own, other)
        if is_other and (fit := _fit(words, _words_of(other))) >= LEAST_FIT:
            terms = data.offers.cheapest_terms(candidate, EndpointFilters())
            price = terms.usd_price if terms else 0.0
            found.append(Alternative(candidate, round(fit, 2), price if price > 0 else inf))
    found.sort(key=lambda each: (-each.fit, each.usd_price))
    is_first = is_among_first(endpoints.sellers[[each.ordinal for each in found]], 1)
    return [*compress(found, is_first)][:MAX_ALTERNATIVES]


def describe_alternatives(found: Sequence[Alternative]) -> str:
    """Return how many others do the same, and their lowest price; empty without any."""
    if not found:
        return ""
    price = min(each.usd_price for each in found)
    count = f"{len(found)} others do this" if len(found) > 1 else "1 other does this"
    return f"{count}, from {format_decimal(price)} USD" if price < inf else count


def _candidates(data: SnapshotData, engine: EmbeddedEngine, ordinal: int, text: str) -> list[int]:
    """Return the living endpoints of other sellers that match the words best."""
    sellers, index = data.endpoints.sellers, engine.index
    allowed = np.zeros(index.documents, np.bool_)
    is_alive = data.endpoints.filters.arrays["alive"] >= 0
    allowed[: len(sellers)] = is_alive & (sellers != sellers[ordinal])
    expansions = engine.parser.expand(query_words(text[:MAX_TEXT]))
    lists = index.postings.of_terms([term for each in expansions for term in each.terms])
    scorer = Scorer(lists, index.documents, mask=allowed)
    best = scorer.top(CANDIDATES).ordinals
    best = best[np.count_nonzero(scorer.impacts_at(best), axis=0) >= LEAST_FIT * len(lists)]
    likely: list[int] = best[is_among_first(sellers[best], PER_SELLER)][:COMPARED].tolist()
    return likely


def _fit(first: Counter[str], second: Counter[str]) -> float:
    """Return the share of the words that both have, 0.0 where neither has all of the other."""
    shared, every = first & second, first | second
    is_negated = not NEGATIONS.isdisjoint(every - shared)
    telling = sum(not _untelling.fullmatch(each) for each in shared)
    if shared not in (first, second) or is_negated or telling < LEAST_WORDS:
        return 0.0
    return shared.total() / every.total()


def _words_of(endpoint: Endpoint) -> Counter[str]:
    """Return the terms of a description but stop words; "to" belongs to the term after it."""
    text = (endpoint.description or "")[:MAX_TEXT]
    words = [each.text for each in words_of(text) if not each.redundant]
    kept = ["", *(each for each in words if each not in IGNORED)]
    terms = ((before, term_of(each)) for before, each in pairwise(kept) if each not in DIRECTIONS)
    return Counter(f"{before} {term}" if before in DIRECTIONS else term for before, term in terms)


def _can_stand_in(own: Endpoint, other: Endpoint) -> bool:
    """Return whether the parameters of an endpoint fill the other, which reads if it does."""
    given, wanted = _names_of(own), _names_of(other)
    is_filled = all(name in given for name in wanted if wanted[name])
    is_known = bool(wanted) or not any(given.values())
    reads = [each.method.upper() in READING for each in (own, other)]
    return is_filled and is_known and reads[0] == reads[1]


def _names_of(endpoint: Endpoint) -> dict[str, bool]:
    """Return the folded names of the parameters of an endpoint, and whether they are required."""
    named = [(fold_name(each.name), each.required is True) for each in endpoint.parameters or []]
    in_url = ((fold_name(name), True) for name in path_parameters(endpoint.url))
    return dict(sorted([*named, *in_url]))  # of one name in two groups, True comes last
