"""Writing the files of a `FilterIndex`: facets, prices and orders."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from indexer.x402.testnets import mainnet_prices
from service.filtering.filters import DENSE_SHARE, FACETS, folded
from service.networks import network_label


class Price(Struct, rename="camel"):
    """The part of a price that filters use."""

    amount: str
    currency: str
    network: str = ""
    scheme: str = ""
    min_amount: str = ""
    max_amount: str = ""

    @property
    def compared(self) -> str:
        """The amount that filters of endpoints compare: the most that a request may cost.

        It is the ceiling of the scheme `upto`, else the fixed amount or the upper bound, else the
        lower bound; empty where none is given.
        """
        if not self.max_amount:
            return self.amount or self.min_amount
        is_ceiling = not self.amount or folded(self.scheme) == "upto"
        return self.max_amount if is_ceiling else self.amount


class Endpoint(Struct):
    """The part of an endpoint that filters use."""

    pricing: Price


class Service(Struct, rename="camel"):
    """The part of a service that filters use."""

    name: str
    endpoints: list[Endpoint]
    category: str = ""
    networks: list[str] = []
    integration_type: str = ""
    tags: list[str] = []
    enriched: bool = False


_decoder = msgspec.json.Decoder(Service)


def write_filters(folder: Path, services: Iterable[bytes], calls: Sequence[int]) -> None:
    """Write the filters of the stored services, and of their calls in the last 30 days."""
    folder.mkdir()
    facets = {name: FacetWriter(name, key) for name, key in FACETS.items()}
    cheapest, enriched, names = [], [], []
    for ordinal, service in enumerate(map(_decoder.decode, services)):
        for name, values in _values(service).items():
            facets[name].add(range(ordinal, ordinal + 1), values)
        cheapest.append(_cheapest(service))
        enriched.append(service.enriched)
        names.append(service.name.casefold())
    for facet in facets.values():
        facet.write(folder, len(names))
    prices = np.asarray(cheapest, np.float64)
    np.save(folder / "cheapest.npy", prices)
    np.save(folder / "enriched.npy", np.asarray(enriched, np.bool_))
    ordinals = range(len(names))
    orders = {
        "popularity": sorted(ordinals, key=lambda ordinal: -calls[ordinal]),
        "price": np.argsort(prices, kind="stable"),
        "name": sorted(ordinals, key=names.__getitem__),
    }
    for name, order in orders.items():
        np.save(folder / f"{name}.npy", np.asarray(order, np.uint32))


class FacetWriter:
    """Collects the values of one facet; spellings with the same key are one value."""

    def __init__(self, name: str, key: Callable[[str], str]) -> None:
        self._name = name
        self._key = key
        self._keys: dict[str, str] = {}
        self._ordinals: dict[str, array[int]] = defaultdict(partial(array, "I"))
        self._spellings: dict[str, Counter[str]] = defaultdict(Counter)

    def add(self, documents: range, values: Sequence[str]) -> None:
        """Add the values that each of some consecutive documents has; documents come in order."""
        if not values or not documents:
            return
        for key, value in {self._key_of(value): value for value in values}.items():
            self._ordinals[key].extend(documents)
            self._spellings[key][value] += len(documents)

    def write(self, folder: Path, documents: int) -> None:
        """Write the values, most frequent first, each in its most frequent spelling."""
        values = {
            min(self._spellings[key].items(), key=_most_frequent)[0]: np.asarray(ordinals)
            for key, ordinals in self._ordinals.items()
        }
        write_facet(folder, self._name, values, documents)

    def _key_of(self, value: str) -> str:
        key = self._keys.get(value)
        if key is None:
            key = self._keys[value] = self._key(value)
        return key


def write_facet(
    folder: Path, name: str, values: Mapping[str, npt.NDArray[np.uint32]], documents: int
) -> None:
    """Write the files of a `Facet`: values with the ordinals of their documents, ascending."""
    ordered = sorted(values, key=lambda value: (-len(values[value]), value))
    (folder / f"{name}.values.json").write_bytes(msgspec.json.encode(ordered))
    lengths = [0, *(len(values[value]) for value in ordered)]
    np.save(folder / f"{name}.offsets.npy", np.cumsum(lengths, dtype=np.int64))
    ordinals = [np.empty(0, np.uint32), *(values[value] for value in ordered)]
    np.save(folder / f"{name}.ordinals.npy", np.concatenate(ordinals).astype(np.uint32))
    dense = [value for value in ordered if len(values[value]) > documents * DENSE_SHARE]
    masks = np.zeros((len(dense), documents), np.bool_)
    for mask, value in zip(masks, dense, strict=True):
        mask[values[value]] = True
    np.save(folder / f"{name}.dense.npy", masks)


def _most_frequent(spelling: tuple[str, int]) -> tuple[int, str]:
    value, count = spelling
    return -count, value


def _values(service: Service) -> dict[str, list[str]]:
    prices = [endpoint.pricing for endpoint in service.endpoints]
    networks = service.networks or [price.network for price in prices if price.network]
    return {
        "category": [service.category],
        "network": [network_label(network) for network in networks],
        "scheme": [price.scheme for price in prices if price.scheme],
        "integrationType": [service.integration_type],
        "tag": service.tags,
    }


def _cheapest(service: Service) -> float:
    """Return the lowest price of the endpoints, NaN if there is none.

    An endpoint without a fixed price counts with its bound, and prices on test networks count only
    where there are no others.
    """
    prices = mainnet_prices(endpoint.pricing for endpoint in service.endpoints)
    amounts = [price.amount or price.min_amount or price.max_amount for price in prices]
    return min((float(amount) for amount in amounts if amount), default=float("nan"))
