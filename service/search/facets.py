"""Facets: the values by which services can be narrowed and counted, each with its ordinals.

A facet of v values over p (service, value) pairs is three files: `<name>.values.json`, the values
as shown, most frequent first; `<name>.offsets.npy`, int64[v + 1]; `<name>.ordinals.npy`, uint32[p],
the services of each value in listing order. No value is without services. Values of more than one
service in 40 are frequent: `<name>.frequent.npy`, bool[f, services], says which have the first f.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from service.networks import network_key
from service.storage.memory_map import open_array

Mask = npt.NDArray[np.bool_]

FREQUENT_SHARE = 1 / 40

# How two spellings of a value are found to be one.
FACETS: dict[str, Callable[[str], str]] = {
    "category": str.casefold,
    "network": network_key,
    "scheme": str.casefold,
    "integrationType": str.casefold,
    "tag": str.casefold,
}

_values = msgspec.json.Decoder(list[str])


class Facet:
    """The values of one facet."""

    def __init__(self, folder: Path, name: str) -> None:
        self._values = _values.decode((folder / f"{name}.values.json").read_bytes())
        self._offsets = open_array(folder / f"{name}.offsets.npy")
        self._ordinals = open_array(folder / f"{name}.ordinals.npy")
        self._frequent = open_array(folder / f"{name}.frequent.npy")
        self._key = FACETS[name]
        self._numbers = {self._key(value): number for number, value in enumerate(self._values)}

    def having(self, values: Sequence[str], mask: Mask) -> Mask:
        """The services that have any of these values, bool[n]: in `mask`, or as they are stored."""
        numbers = [self._numbers.get(self._key(value), -1) for value in values]
        if len(numbers) == 1 and 0 <= numbers[0] < len(self._frequent):
            stored: Mask = self._frequent[numbers[0]]
            return stored
        mask.fill(False)
        for number in numbers:
            if number >= 0:
                mask[self._ordinals[self._offsets[number] : self._offsets[number + 1]]] = True
        return mask

    def counts(self, matches: Mask) -> list[tuple[str, int]]:
        """How many of the matches have each value, most first; values without any are left out."""
        if not self._values:
            return []
        counts = np.add.reduceat(matches[self._ordinals], self._offsets[:-1], dtype=np.int64)
        order = np.argsort(-counts, kind="stable")
        return [(self._values[number], int(counts[number])) for number in order if counts[number]]
