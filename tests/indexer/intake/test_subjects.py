"""URLs and payees of refused records, by which their sellers find them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from indexer.intake.findings import read_subject
from tests.support.running import endpoint
from tests.support.sources.x402 import accept, resource

ODD: list[Any] = [None, 7, "", [], {}]


@pytest.mark.parametrize("odd", ODD)
def test_payees_that_are_no_text_are_left_out(odd: Any) -> None:
    paid = resource("https://a.example/", accept(payTo=odd), accept(payTo="0xAB"))
    record = {"endpoints": [endpoint() | {"payTo": odd}, endpoint() | {"payTo": "0xAB"}, odd]}
    for values in (paid, record):
        subject = read_subject(json.dumps(values).encode())
        assert len(subject.payees) == 1
        assert len(subject.addresses) == 1
