"""Columns of records, and the records as they are stored."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np
from hypothesis import strategies as st

from indexer.derive.columns import RecordColumns
from indexer.derive.extraction import Extractor
from indexer.record_store import KEY_SIZE, Keys
from tests.support.running import Json


def stored(record: Json) -> bytes:
    """Return a record as it is stored: compact JSON with escapes as they came."""
    return msgspec.json.format(json.dumps(record).encode(), indent=-1)


def keys_of(texts: Iterable[bytes]) -> Keys:
    """Return the hashes of stored records."""
    digests = b"".join(blake2b(text, digest_size=KEY_SIZE).digest() for text in texts)
    return np.frombuffer(digests, np.uint8).reshape(-1, KEY_SIZE)


def columns_of_texts(texts: Sequence[bytes]) -> RecordColumns:
    """Return the columns of stored records."""
    extractor = Extractor()
    for text in texts:
        extractor.add(text)
    keys = keys_of(texts)
    return RecordColumns(extractor.arrays(np.concatenate((keys, np.zeros_like(keys)), axis=1)))


def columns_of(records: Iterable[Json]) -> RecordColumns:
    """Return the columns of records."""
    return columns_of_texts([stored(record) for record in records])


def _some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """Return objects with any of these members, in any order."""
    shuffled = st.permutations(sorted(fields))
    return st.tuples(shuffled, st.fixed_dictionaries({}, optional=fields)).map(
        lambda pair: {name: pair[1][name] for name in pair[0] if name in pair[1]}
    )


_texts = st.sampled_from(["", "Data", "data", "Straße", "STRASSE", " ß ", "\u202ea", "😀", 'a"\\'])
_networks = st.sampled_from(["Base", "base_sepolia", "eip155:8453", "Weird-NET", "weird net", ""])
_amounts = st.sampled_from(["", "0", "0.0", "0.01", "1", "100.50", "9" * 40, f"0.{'0' * 30}1"])
_currencies = st.sampled_from(["USDC", "usdc", "EURC", ""])
_any = st.sampled_from([None, "sun", "moon", 5, {"a": [1]}])
_prices = st.builds(
    lambda amount, currency, other: {"amount": amount, "currency": currency} | other,
    _amounts,
    _currencies,
    _some(
        network=_networks,
        scheme=st.sampled_from(["exact", "UPTO", "upto ", ""]),
        minAmount=_amounts,
        maxAmount=_amounts,
    ),
)
_calls = st.sampled_from(["0", "7", str(2**63 - 1), "9" * 19])
_endpoints = st.builds(
    lambda url, method, price, other: {"url": url, "method": method, "pricing": price} | other,
    st.sampled_from(["https://a.example/x", "HTTPS://A.example/x", "no URL"]),
    st.sampled_from(["GET", "get", "GET, POST", "Put|x", ""]),
    _prices,
    _some(
        description=_texts,
        tags=st.lists(_texts, max_size=4),
        parameters=st.lists(_texts.map(lambda name: {"name": name}), max_size=2),
        quality=st.none() | _some(l30DaysTotalCalls=_calls),
        outputSchema=_any,
        tool=_any,
        payTo=_any,
        providerName=_texts,
        service=_any,
        match=_any,
    ),
)
records: st.SearchStrategy[Json] = st.builds(
    lambda first, name, description, endpoints, other: (
        (first | {"id": "one", "name": name, "description": description, "endpoints": endpoints})
        | other
    ),
    _some(isNew=st.booleans(), x=_any, provider=_texts),
    _texts.filter(bool),
    _texts,
    st.lists(_endpoints, max_size=4),
    _some(
        category=_texts,
        networks=st.lists(_networks, max_size=4),
        integrationType=st.sampled_from(["1P", "3P", ""]),
        tags=st.lists(_texts, max_size=4),
        enriched=st.booleans(),
        endpointCount=st.just(3),
    ),
)
"""Valid records with values that are spelt in several ways, odd prices and unknown members."""
