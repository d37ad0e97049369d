"""A scorer of a cluster: what it asks for, and how often."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from service.errors import EngineUnavailable
from service.opensearch import scorer
from service.opensearch.index import ORDINAL, SERVICE
from service.opensearch.requests import Clause, SearchRequest, in_mask
from service.opensearch.responses import SearchResponse
from service.opensearch.scorer import ClusterScorer
from service.search.postings import FULL_WEIGHT, Mask
from service.search.query import ParsedQuery
from service.search.query_expansion import Expansion
from service.search.top_k import NO_ORDINALS, SUM_BITS, count_bits

DOCUMENTS = 100


class Index:
    """Answers as an index each of whose documents matches, the last one best."""

    def __init__(self, documents: int = DOCUMENTS) -> None:
        self.documents = documents
        self.requests: list[SearchRequest] = []

    async def search(self, request: SearchRequest) -> SearchResponse:
        self.requests.append(request)
        end = self.documents - request.start
        ordinals = np.arange(end - 1, max(end - request.size, 0) - 1, -1)
        bits = np.array([0b1011], np.uint64) if request.has_bits else np.empty(0, np.uint64)
        impacts = np.tile(ordinals + 1, (request.named, 1))
        return SearchResponse(DOCUMENTS, ordinals + 1, ordinals, impacts, bits)


def query(*words: Sequence[int]) -> ParsedQuery:
    """Return a query of words with these terms."""
    expansions = [
        Expansion(f"word{n}", [(term, FULL_WEIGHT) for term in terms], required=True, is_known=True)
        for n, terms in enumerate(words)
    ]
    return ParsedQuery(expansions, NO_ORDINALS, None)


def scorer_of(
    index: Index,
    parsed: ParsedQuery,
    mask: Mask | None = None,
    shift: int | None = None,
    *,
    match_all: bool = False,
) -> ClusterScorer:
    return ClusterScorer(index.search, parsed, mask, DOCUMENTS, shift, match_all=match_all)


@pytest.mark.parametrize(
    ("parsed", "mask", "match_all"),
    [
        (query(), None, False),
        (query([]), None, False),
        (query([1], []), None, True),
        (query([1]), np.zeros(DOCUMENTS, np.bool_), False),
    ],
)
def test_nothing_is_asked_for_where_nothing_matches(
    parsed: ParsedQuery, mask: Mask | None, match_all: bool
) -> None:
    index = Index()
    scorer = scorer_of(index, parsed, mask, match_all=match_all)

    async def ask() -> None:
        assert not len((await scorer.top(5)).keys)
        assert not (await scorer.matches()).any()
        assert not (await scorer.impacts_at(np.arange(3))).any()

    asyncio.run(ask())
    assert not index.requests


def test_many_hits_are_fetched_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scorer, "MAX_HITS", 30)
    index = Index()
    top = asyncio.run(scorer_of(index, query([1])).top(1_000_000))
    assert top.total == DOCUMENTS
    assert top.ordinals.tolist() == [*range(DOCUMENTS - 1, -1, -1)]
    assert [(each.start, each.size) for each in index.requests] == [
        (0, 30),
        (30, 30),
        (60, 30),
        (90, 10),
    ]


def test_hits_that_run_out_are_no_part_of_a_ranking() -> None:
    with pytest.raises(EngineUnavailable, match="changed during this search"):
        asyncio.run(scorer_of(Index(documents=40), query([1])).top(80))


def test_services_are_counted_and_their_bits_kept_by_one_request() -> None:
    index = Index()
    scorer = scorer_of(index, query([1]), shift=10)

    async def ask() -> None:
        top = await scorer.top(2)
        assert top.total == count_bits(await scorer.matches()) == 3
        assert (-(top.keys >> SUM_BITS)).tolist() == [90, 89]
        assert (await scorer.matches()).tolist() == [0b1011]

    asyncio.run(ask())
    assert [(each.size, each.has_bits, each.by_group) for each in index.requests] == [
        (2, True, True)
    ]


def test_impacts_are_asked_for_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scorer, "MAX_IMPACTS", 8)
    index = Index()
    documents = np.array([99, 97, 98, 97, 96, 95, 94])
    impacts = asyncio.run(scorer_of(index, query([1, 2], [3])).impacts_at(documents))
    assert [each.size for each in index.requests] == [2, 2, 2]
    assert impacts.shape == (3, len(documents))
    # Documents that a response has and nobody asked for change nothing.
    assert impacts[0].tolist() == [100, 0, 99, 0, 0, 0, 0]


def test_bitmaps_of_long_masks_are_made_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def record(mask: Mask, *, by_group: bool) -> Clause:
        threads.append(threading.current_thread())
        return in_mask(mask, by_group=by_group)

    monkeypatch.setattr(scorer, "in_mask", record)
    monkeypatch.setattr(scorer, "THREAD_FROM", DOCUMENTS)

    async def ask(length: int) -> None:
        own = scorer_of(Index(), query([1]), np.ones(length, np.bool_))
        await own.top(3)
        await own.matches()

    asyncio.run(ask(DOCUMENTS - 1))
    asyncio.run(ask(DOCUMENTS))
    assert [each is threading.main_thread() for each in threads] == [True, False]


@given(runs=st.lists(st.integers(1, 400), min_size=1, max_size=300), by_group=st.booleans())
def test_a_bitmap_has_the_units_of_a_mask(runs: list[int], by_group: bool) -> None:
    mask = np.repeat(np.arange(len(runs)) % 2 == 0, runs)
    clause = in_mask(mask, by_group=by_group)["terms"]
    (text,) = clause[SERVICE if by_group else ORDINAL]
    assert clause["value_type"] == "bitmap"
    assert [*BitMap.deserialize(base64.b64decode(text))] == np.flatnonzero(mask).tolist()


def test_the_bitmap_of_a_range_is_small() -> None:
    mask = np.arange(500_000) < 400_000
    assert len(in_mask(mask, by_group=False)["terms"][ORDINAL][0]) < 300
