"""Services of hundreds of endpoints: stuffing words gains little, and sound ones are found."""

from __future__ import annotations

import pytest

from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.support.running import build_snapshot_alone
from tests.support.stuffing import StuffedCatalogue

MAX_STUFFED = 20  # of 120 first pages


@pytest.fixture(scope="module")
def catalogue() -> StuffedCatalogue:
    return StuffedCatalogue()


@pytest.fixture(scope="module", params=[True, False])
def snapshot(
    catalogue: StuffedCatalogue,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Snapshot:
    folder = tmp_path_factory.mktemp("stuffed")
    # One process, as its workers would take longer to start than they work.
    built = build_snapshot_alone(folder, catalogue.records, semantic=request.param, jobs=1)
    return open_snapshot(built)


def test_endpoints_named_by_pairs_of_frequent_words_reach_few_first_pages(
    catalogue: StuffedCatalogue, snapshot: Snapshot
) -> None:
    assert catalogue.places(snapshot, "stuffer").first_pages <= MAX_STUFFED


def test_a_sound_service_of_hundreds_of_endpoints_is_found_by_each(
    catalogue: StuffedCatalogue, snapshot: Snapshot
) -> None:
    places = catalogue.places(snapshot, "sound")
    assert places.first_pages >= 0.95 * len(places.places)
    assert places.reciprocal_rank >= 0.7
