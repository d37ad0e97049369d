"""The fit of a first row, and when an answer warns that nothing matches well."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.conditions import EndpointFilters, Filters
from service.engines.engine import Search
from service.snapshot.snapshot import Snapshot, open_snapshot

WORDS = (
    *("weather", "forecast", "ocr", "geocoding", "tide", "harbour", "bitcoin", "price", "token"),
    *("translate", "cheese", "zebra", "the", "of", "Gas Weather", "Inkreader OCR", "wethr"),
)


@pytest.fixture(scope="module")
def snapshot(sample: Path) -> Snapshot:
    return open_snapshot(sample)


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join), st.data())
def test_the_fit_is_that_of_scoring_the_first_row_again(
    snapshot: Snapshot, query: str, data: st.DataObject
) -> None:
    engine, threshold = snapshot.embedded, snapshot.manifest.threshold
    assert threshold is not None
    match = data.draw(st.sampled_from(["any", "all"]))
    limit = data.draw(st.integers(1, 30))
    parsed = engine.parser.parse(query)
    for per_service in (0, 3):
        answer = engine.rank_endpoints(
            Search(query, EndpointFilters(per_service=per_service, match=match), limit)
        )
        if answer.ordinals and parsed.vector is not None:
            fit = engine.index.fit(parsed, answer.ordinals[0])
            assert answer.fit == threshold.share(fit, parsed.words)
    services = engine.rank_services(Search(query, Filters(best_endpoints=True, match=match), limit))
    if services.best_endpoints and parsed.vector is not None:
        first = services.best_endpoints[0]
        if first is not None:
            fit = engine.index.fit(parsed, first)
            assert services.fit == threshold.share(fit, parsed.words)
