"""Extracting the columns of records, for all files of a snapshot that records are needed for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import count
from math import nan

import msgspec
import numpy as np

from indexer.columns.annotations import decode_annotations
from indexer.columns.ragged import RaggedWriter, ragged_texts
from indexer.columns.record_columns import (
    EMPTY,
    ENDPOINT,
    ENDPOINT_RUNS,
    PRICE_RANGE,
    SERVICE,
    SERVICE_RUNS,
    RecordColumns,
    packer,
)
from indexer.columns.records import (
    DEPRECATED,
    MAX_PAYERS,
    Contents,
    IndexedPrice,
    IndexedService,
    decode_list,
    decode_members,
    decode_service,
    summarise,
)
from indexer.intake.findings import Address, find_address
from indexer.record_store import KEY_SIZE, Keys
from indexer.resources.assets import mainnet_prices
from indexer.text import is_own_text
from indexer.untrusted import string_of
from service.conditions import ENDPOINT_KEYS, SERVICE_KEYS
from service.schema.values import NULL
from service.storage.texts import text_hash

NO_ADDRESS = Address(0, 0)

_service, _endpoint, _price_range = map(packer, (SERVICE, ENDPOINT, PRICE_RANGE))
_keys = {
    name: lru_cache(maxsize=1024)(key) for name, key in {**SERVICE_KEYS, **ENDPOINT_KEYS}.items()
}


class Extractor:
    """Extracts the columns of records, one by one."""

    def __init__(self) -> None:
        self._numbers = defaultdict(count(EMPTY + 1).__next__, {"": EMPTY})
        self._texts = bytearray()
        self._services = bytearray()
        self._endpoints = bytearray()
        self._runs = {name: RaggedWriter(dtype) for name, dtype in SERVICE_RUNS.items()}
        self._endpoint_runs = {name: RaggedWriter(dtype) for name, dtype in ENDPOINT_RUNS.items()}

    def add(self, text: bytes, annotations: bytes = b"") -> tuple[bytes, Contents]:
        """Extract the next record, compact JSON as it is stored; return its texts and their key.

        `annotations` has the encoded annotations of the service.
        """
        service, members = decode_service(text), decode_members(text)
        decoded = decode_annotations(annotations)
        for number in decoded.implausible:
            endpoint = service.endpoints[number]
            endpoint.pricing = endpoint.pricing.without_amounts()
        prices = [endpoint.pricing for endpoint in service.endpoints]
        comparable = mainnet_prices(prices)
        contents = service.contents(decoded)
        key = contents.key(service.id)
        self._texts += key
        runs = self._runs
        self._add_values(runs, service.values)
        runs["id"].add(service.id.encode())
        runs["name"].add(service.name.encode())
        self._add_price_ranges(comparable)
        endpoints = bytes(members["endpoints"])
        start, summary = text.index(endpoints), b""
        self._add_endpoints(start, endpoints, service)
        # A summary is spliced later from a record that is as msgspec encodes it, so that no name is
        # repeated, and that has the bytes of its endpoints once.
        is_unique = text.find(endpoints, start + 1) < 0
        if "endpointCount" in members or not is_unique or msgspec.json.encode(members) != text:
            summary = summarise(members, len(prices))
        self._runs["summary"].add(summary)
        self._services += _service.pack(
            _cheapest(comparable),
            service.enriched,
            string_of(service.status).casefold() == DEPRECATED,
            len(prices),
            start,
            start + len(endpoints),
        )
        return key, contents

    def columns(self, keys: Keys, annotations: Keys) -> RecordColumns:
        """Return the columns of the records, given the hashes of records and annotations."""
        return RecordColumns(
            keys=keys,
            annotations=annotations,
            texts=np.frombuffer(bytes(self._texts), np.uint8).reshape(-1, KEY_SIZE),
            services=np.frombuffer(bytes(self._services), SERVICE),
            endpoints=np.frombuffer(bytes(self._endpoints), ENDPOINT),
            service_runs={name: run.rows() for name, run in self._runs.items()},
            endpoint_runs={name: run.rows() for name, run in self._endpoint_runs.items()},
            strings=ragged_texts([string.encode() for string in self._numbers]),
        )

    def _add_values(
        self, runs: Mapping[str, RaggedWriter], values: Mapping[str, Sequence[str]]
    ) -> None:
        """Add the numbers of the values of facets; of several spellings of one the last counts."""
        for name, own in values.items():
            distinct = {_keys[name](value): value for value in own}
            runs[name].add_numbers(self._numbers[value] for value in distinct.values())

    def _add_price_ranges(self, prices: Iterable[IndexedPrice]) -> None:
        ranges: dict[str, tuple[float, float]] = {}
        for price in prices:
            for amount in (price.amount, price.min_amount, price.max_amount):
                if amount and (value := float(amount)) > 0:
                    lowest, highest = ranges.get(price.currency, (value, value))
                    ranges[price.currency] = (min(lowest, value), max(highest, value))
        packed = [_price_range.pack(self._numbers[name], *own) for name, own in ranges.items()]
        self._runs["prices"].add(b"".join(packed))

    def _add_endpoints(self, start: int, endpoints: bytes, service: IndexedService) -> None:
        """Add the endpoints of a service; `start` is where they stand in the record."""
        numbers = self._numbers
        for endpoint, raw in zip(service.endpoints, decode_list(endpoints), strict=True):
            own_start = start + 1  # after the bracket or a comma
            start = own_start + memoryview(raw).nbytes
            added = (endpoint.service, endpoint.match, endpoint.ratecard)
            self._add_values(self._endpoint_runs, service.values_of(endpoint))
            price, quality = endpoint.pricing, endpoint.quality
            tool = "" if endpoint.tool is NULL else string_of(endpoint.tool)
            pay_to = "" if endpoint.pay_to is NULL else string_of(endpoint.pay_to)
            compared = price.compared
            address = find_address(endpoint.url) or NO_ADDRESS
            payers = 0 if quality is None else int(quality.l30_days_unique_payers)
            self._endpoints += _endpoint.pack(
                own_start,
                start,
                any(each is not NULL for each in added),
                is_own_text(endpoint.description, endpoint.url),
                endpoint_key(endpoint.url, endpoint.method, tool),
                text_hash(endpoint.url),
                *address,
                endpoint.advice,
                float(compared) if compared else nan,
                min(MAX_PAYERS, payers),
                numbers[price.network],
                numbers[price.scheme],
                numbers[pay_to],
                numbers[price.currency],
            )


def endpoint_key(url: str, method: str, tool: str) -> int:
    """Return a hash of the method, the tool and the URL of an endpoint."""
    return text_hash(f"{method}\n{tool}\n{url}")


def _cheapest(prices: Iterable[IndexedPrice]) -> float:
    """Return the lowest of prices, NaN if there is none.

    A price without a fixed amount counts with its bound.
    """
    amounts = [price.amount or price.min_amount or price.max_amount for price in prices]
    return min((float(amount) for amount in amounts if amount), default=nan)
