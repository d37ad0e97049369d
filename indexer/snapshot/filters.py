"""Writing what `service.search.filters` reads: facets, prices and orders."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct

from indexer.x402.testnets import mainnet_prices
from service.networks import network_label
from service.search.facets import FACETS, FREQUENT_SHARE


class Price(Struct, rename="camel"):
    """What of a price narrows."""

    amount: str
    network: str = ""
    scheme: str = ""
    min_amount: str = ""
    max_amount: str = ""


class Priced(Struct):
    """What of an endpoint narrows."""

    pricing: Price


class Narrowed(Struct, rename="camel"):
    """What of a service narrows."""

    name: str
    endpoints: list[Priced]
    category: str = ""
    networks: list[str] = []
    integration_type: str = ""
    tags: list[str] = []
    enriched: bool = False


_decoder = msgspec.json.Decoder(Narrowed)


def write_filters(folder: Path, services: Iterable[bytes], calls: list[int]) -> None:
    """Write the facets, prices and orders of the services, called so often in 30 days."""
    folder.mkdir()
    facets = {name: FacetValues(name) for name in FACETS}
    cheapest, enriched, names = [], [], []
    for ordinal, service in enumerate(map(_decoder.decode, services)):
        for name, values in _values(service).items():
            facets[name].add(ordinal, values)
        cheapest.append(_cheapest(service))
        enriched.append(service.enriched)
        names.append(service.name.casefold())
    for facet in facets.values():
        facet.write(folder, len(names))
    prices = np.asarray(cheapest, np.float64)
    np.save(folder / "cheapest.npy", prices)
    np.save(folder / "enriched.npy", np.asarray(enriched, np.bool_))
    ordinals = range(len(names))
    _write_order(folder / "popularity.npy", sorted(ordinals, key=lambda ordinal: -calls[ordinal]))
    _write_order(folder / "price.npy", np.argsort(prices, kind="stable").tolist())
    _write_order(folder / "name.npy", sorted(ordinals, key=names.__getitem__))


class FacetValues:
    """Gathers the values of one facet, of which several spellings may be one."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._key = FACETS[name]
        self._ordinals: dict[str, list[int]] = defaultdict(list)
        self._spellings: dict[str, Counter[str]] = defaultdict(Counter)

    def add(self, ordinal: int, values: list[str]) -> None:
        """Add the values of one service."""
        for key, value in {self._key(value): value for value in values}.items():
            self._ordinals[key].append(ordinal)
            self._spellings[key][value] += 1

    def write(self, folder: Path, services: int) -> None:
        """Write the values, most frequent first, each in its commonest spelling."""
        keys = sorted(self._ordinals, key=lambda key: (-len(self._ordinals[key]), key))
        spellings = [min(self._spellings[key].items(), key=_commonest)[0] for key in keys]
        values = msgspec.json.encode(spellings)
        (folder / f"{self._name}.values.json").write_bytes(values)
        lengths = [0, *(len(self._ordinals[key]) for key in keys)]
        np.save(folder / f"{self._name}.offsets.npy", np.cumsum(lengths, dtype=np.int64))
        ordinals = [ordinal for key in keys for ordinal in self._ordinals[key]]
        np.save(folder / f"{self._name}.ordinals.npy", np.asarray(ordinals, np.uint32))
        frequent = [key for key in keys if len(self._ordinals[key]) > services * FREQUENT_SHARE]
        columns = np.zeros((len(frequent), services), np.bool_)
        for column, key in zip(columns, frequent, strict=True):
            column[self._ordinals[key]] = True
        np.save(folder / f"{self._name}.frequent.npy", columns)


def _commonest(spelling: tuple[str, int]) -> tuple[int, str]:
    value, count = spelling
    return -count, value


def _values(service: Narrowed) -> dict[str, list[str]]:
    prices = [endpoint.pricing for endpoint in service.endpoints]
    networks = service.networks or [price.network for price in prices if price.network]
    return {
        "category": [service.category],
        "network": [network_label(network) for network in networks],
        "scheme": [price.scheme for price in prices if price.scheme],
        "integrationType": [service.integration_type],
        "tag": service.tags,
    }


def _cheapest(service: Narrowed) -> float:
    """The least that any endpoint charges; one without a fixed price charges its bound.

    Prices on test networks count only where there are no others.
    """
    prices = mainnet_prices(endpoint.pricing for endpoint in service.endpoints)
    bounds = [price.amount or price.min_amount or price.max_amount for price in prices]
    return min((float(bound) for bound in bounds if bound), default=float("nan"))


def _write_order(path: Path, ordinals: list[int]) -> None:
    np.save(path, np.asarray(ordinals, np.uint32))
