from __future__ import annotations

import msgspec
import pytest

from indexer.errors import InvalidRecord
from indexer.probes.observation import (
    Observation,
    Outcome,
    decode_observation,
)

LINE = {
    "url": "https://weather.example/v1/now",
    "method": "GET",
    "observed_at": "2026-05-07T10:16:51Z",
    "outcome": "quoted",
    "status": 402,
    "latency_ms": 81,
    "quotes": [{"scheme": "exact", "network": "eip155:8453", "amount": "1000", "payTo": "0xA"}],
    "prober": "nightly",
    "wildcard": False,
}


def _decode(**changes: object) -> Observation:
    return decode_observation(msgspec.json.encode(LINE | changes))


def test_a_line_needs_a_url_and_an_outcome_alone_and_may_have_unknown_members() -> None:
    observation = decode_observation(
        b'{"url":"https://a.example/","outcome":"unreachable","quote":null,"cadence":"daily"}'
    )
    assert observation == Observation(
        url="https://a.example/", outcome=Outcome.UNREACHABLE, quote=None
    )
    assert observation.moment == -1


@pytest.mark.parametrize("observed_at", ["2026-05-07T10:16:51Z", 1778149011, 1778149011000])
def test_a_time_is_iso_8601_or_unix_time(observed_at: object) -> None:
    assert _decode(observed_at=observed_at).moment == 1778149011_000000


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"url": ""}, "$.url"),
        ({"outcome": "fine"}, "$.outcome"),
        ({"status": "402"}, "$.status"),
        ({"quotes": [{"amount": []}]}, "$.quotes[0].amount"),
        ({"quotes": [{}] * 101}, "$.quotes"),
    ],
)
def test_a_fault_is_named_by_its_path(changes: dict[str, object], path: str) -> None:
    with pytest.raises(InvalidRecord) as fault:
        _decode(**changes)
    assert fault.value.path == path
