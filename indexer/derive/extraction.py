"""Extracting the columns of records: each is decoded once, for all files of a snapshot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import count
from math import nan
from pathlib import Path
from struct import Struct

import msgspec
import numpy as np

from indexer.derive.columns import (
    EMPTY,
    ENDPOINT,
    PRICE_RANGE,
    RAGGED,
    SERVICE,
    STRINGS,
    packer,
    ragged_arrays,
)
from indexer.derive.ragged import Ragged, RaggedWriter, ragged_texts
from indexer.derive.records import (
    DEPRECATED,
    ENDPOINT_FIELDS,
    MAX_PAYERS,
    SERVICE_FIELDS,
    IndexedPrice,
    IndexedService,
    decode_annotations,
    decode_service,
    summarise,
)
from indexer.encoder.encoding import TextEncoder
from indexer.intake.fates import Address, address_of
from indexer.record_store import Keys
from indexer.resources.assets import mainnet_prices
from indexer.resources.names import registrable_domain
from indexer.untrusted import raw_items, raw_members, string_of
from service.arrays.container import Arrays
from service.arrays.texts import text_hash
from service.conditions import ENDPOINT_KEYS, SERVICE_KEYS
from service.schema.listings import Advice
from service.schema.values import NULL
from service.search.analysis import term_of, words_of
from service.search.semantic.vectors import Rows
from service.urls import find_url

NO_ADDRESS = Address(0, 0)

_service, _endpoint, _price_range = map(packer, (SERVICE, ENDPOINT, PRICE_RANGE))
_number = Struct("<i")
_keys = {
    name: lru_cache(maxsize=1024)(key) for name, key in {**SERVICE_KEYS, **ENDPOINT_KEYS}.items()
}


class NumberedStrings(defaultdict[str, bytes]):
    """The packed numbers of strings, in the order in which they came first; EMPTY is of ""."""

    def __init__(self) -> None:
        super().__init__(map(_number.pack, count(EMPTY + 1)).__next__, {"": _number.pack(EMPTY)})

    def table(self) -> Ragged:
        """Return the strings by number."""
        return ragged_texts([string.encode() for string in self])


class Tokens(dict[str, bytes]):
    """The packed tokens of each piece of text between blanks; `numbers` has those of strings."""

    def __init__(self, numbers: Mapping[str, bytes]) -> None:
        self._numbers = numbers

    def __missing__(self, piece: str) -> bytes:
        words = words_of(piece)
        tokens = self[piece] = b"".join([self._numbers[_entry_of(word.text)] for word in words])
        return tokens


class TextWriter:
    """Collects the tokens of documents by field, and their vectors where there is an encoder."""

    def __init__(self, fields: Sequence[str], tokens: Tokens, encoder: Path | None) -> None:
        self._of_piece = tokens.__getitem__
        self._fields = {name: RaggedWriter(np.int32) for name in fields}
        self._encoder = None if encoder is None else TextEncoder(encoder)
        self._count = 0

    def add(self, contents: Sequence[str]) -> None:
        """Add the next document, by a text for each field, of which the first is its title."""
        for tokens, text in zip(self._fields.values(), contents, strict=True):
            tokens.add(b"".join(map(self._of_piece, text.split())))
        if self._encoder is not None:
            self._encoder.add(contents[0], contents[1])
        self._count += 1

    def tokens(self) -> dict[str, Ragged]:
        """Return the tokens by field."""
        return {name: tokens.rows() for name, tokens in self._fields.items()}

    def vectors(self) -> Rows:
        """Return the vectors, of no dimensions without an encoder."""
        if self._encoder is None:
            return np.empty((self._count, 0), np.int8)
        return self._encoder.encoded()


class Extractor:
    """Extracts the columns of records, one by one.

    encoder: the folder of the `Encoder` of their texts, if there is one
    """

    def __init__(self, encoder: Path | None = None) -> None:
        self._numbers = NumberedStrings()
        tokens = Tokens(self._numbers)
        self._service_texts = TextWriter(SERVICE_FIELDS, tokens, encoder)
        self._endpoint_texts = TextWriter(ENDPOINT_FIELDS, tokens, encoder)
        self._services, self._endpoints = bytearray(), bytearray()
        self._runs = {name: RaggedWriter(dtype) for name, dtype in RAGGED.items()}

    def add(self, text: bytes, annotations: bytes = b"") -> None:
        """Extract the next record, compact JSON as it is stored.

        `annotations` has the encoded annotations of the service.
        """
        service, members = decode_service(text), raw_members(text)
        decoded = decode_annotations(annotations)
        for number in decoded.implausible:
            endpoint = service.endpoints[number]
            endpoint.pricing = endpoint.pricing.without_amounts()
        prices = [endpoint.pricing for endpoint in service.endpoints]
        comparable = mainnet_prices(prices)
        contents = service.contents(decoded)
        self._service_texts.add(contents.service)
        for each in contents.endpoints:
            self._endpoint_texts.add(each)
        runs = self._runs
        self._add_values("service", service.values)
        runs["service.id"].add(service.id.encode())
        runs["service.name"].add(service.name.encode())
        self._add_price_ranges(comparable)
        endpoints = bytes(members["endpoints"])
        start, summary = text.index(endpoints), b""
        self._add_endpoints(start, endpoints, service)
        # A summary is spliced later from a record that is as msgspec encodes it, so that no name is
        # repeated, and that has the bytes of its endpoints once.
        is_unique = text.find(endpoints, start + 1) < 0
        if "endpointCount" in members or not is_unique or msgspec.json.encode(members) != text:
            summary = summarise(members, len(prices))
        runs["service.summary"].add(summary)
        self._services += _service.pack(
            _cheapest(comparable),
            service.enriched,
            string_of(service.status).casefold() == DEPRECATED,
            len(prices),
            start,
            start + len(endpoints),
        )

    def arrays(self, keys: Keys) -> Arrays:
        """Return the arrays of the columns, given the keys of the records."""
        arrays: Arrays = {
            "keys": keys,
            "services": np.frombuffer(bytes(self._services), SERVICE.str),
            "endpoints": np.frombuffer(bytes(self._endpoints), ENDPOINT.str),
            "service_vectors": self._service_texts.vectors(),
            "endpoint_vectors": self._endpoint_texts.vectors(),
        }
        runs = {name: run.rows() for name, run in self._runs.items()}
        for kind, texts in (("service", self._service_texts), ("endpoint", self._endpoint_texts)):
            runs |= {f"{kind}.tokens.{name}": rows for name, rows in texts.tokens().items()}
        for name, rows in runs.items():
            arrays |= ragged_arrays(name, rows)
        return arrays | ragged_arrays(STRINGS, self._numbers.table())

    def _add_values(self, kind: str, values: Mapping[str, Collection[str]]) -> None:
        """Add the numbers of the values of facets; of several spellings of one the last counts."""
        numbers = self._numbers
        for name, own in values.items():
            distinct = {_keys[name](each): each for each in own}.values() if len(own) > 1 else own
            self._runs[f"{kind}.{name}"].add(b"".join([numbers[each] for each in distinct]))

    def _add_price_ranges(self, prices: Iterable[IndexedPrice]) -> None:
        ranges: dict[str, tuple[float, float]] = {}
        for price in prices:
            for amount in (price.amount, price.min_amount, price.max_amount):
                if amount and (value := float(amount)) > 0:
                    lowest, highest = ranges.get(price.currency, (value, value))
                    ranges[price.currency] = (min(lowest, value), max(highest, value))
        packed = [_price_range.pack(self._numbers[name], *own) for name, own in ranges.items()]
        self._runs["service.prices"].add(b"".join(packed))

    def _add_endpoints(self, start: int, endpoints: bytes, service: IndexedService) -> None:
        """Add the endpoints of a service; `start` is where they stand in the record."""
        numbers = self._numbers
        for endpoint, raw in zip(service.endpoints, raw_items(endpoints), strict=True):
            own_start = start + 1  # after the bracket or a comma
            start = own_start + memoryview(raw).nbytes
            added = (endpoint.service, endpoint.match, endpoint.ratecard)
            self._add_values("endpoint", service.values_of(endpoint))
            price, quality = endpoint.pricing, endpoint.quality
            tool = "" if endpoint.tool is NULL else string_of(endpoint.tool)
            pay_to = "" if endpoint.pay_to is NULL else string_of(endpoint.pay_to)
            compared = price.compared
            url = find_url(endpoint.url)
            is_host = url is not None and url.scheme != "mcp"
            seller = url.host if url and is_host else (service.domain or service.id).lower()
            advice = endpoint.advice
            payers = 0 if quality is None else int(quality.l30_days_unique_payers)
            self._endpoints += _endpoint.pack(
                own_start,
                start,
                any(each is not NULL for each in added),
                not advice & Advice.NO_TEXT,
                endpoint_key(endpoint.url, endpoint.method, tool),
                text_hash(endpoint.url),
                text_hash(registrable_domain(seller)),
                *(address_of(url) if url else NO_ADDRESS),
                advice,
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


@lru_cache(maxsize=1 << 16)
def _entry_of(word: str) -> str:
    """Return a folded word, a blank and its term."""
    return f"{word} {term_of(word)}"
