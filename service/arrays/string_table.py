"""A sorted list of distinct strings in plain arrays, named after the table.

utf8: the strings end to end
offsets: the byte at which each string begins, and the end
heads: the first 8 bytes of each string, which are compared first
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np

from service.arrays.container import Arrays, items_of, narrow

HEAD = 8
"""Leading bytes of each string that are also stored as an integer, to be searched first."""


class StringTable:
    """Strings in the order of their UTF-8 bytes, found by value, by prefix and by number.

    Look-ups are binary searches, whose number of comparisons no choice of strings raises.
    """

    def __init__(self, arrays: Arrays, name: str) -> None:
        self._utf8, self._offsets, self._heads = (
            items_of(arrays[f"{name}.{part}"]) for part in ("utf8", "offsets", "heads")
        )

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, number: int) -> str:
        return self.encoded(number).decode()

    def encoded(self, number: int) -> bytes:
        """Return the UTF-8 bytes of a string."""
        return self._utf8[self._offsets[number] : self._offsets[number + 1]].tobytes()

    def find(self, string: str, missing: int = -1) -> int:
        """Return the number of a string, or `missing`."""
        encoded, heads = string.encode("utf-8", "surrogatepass"), self._heads
        head = int.from_bytes(encoded[:HEAD].ljust(HEAD, b"\0"), "big")
        number = bisect_left(heads, head)
        if number == len(heads) or heads[number] != head:
            return missing
        if self.encoded(number) != encoded:  # one of several strings with this head
            number = self._lower_bound(encoded, number)
            if number == len(heads) or self.encoded(number) != encoded:
                return missing
        return number

    def with_prefix(self, prefix: str) -> range:
        """Return the numbers of all strings that begin with a prefix."""
        lowest = prefix.encode()
        start = self._lower_bound(lowest, 0)
        if start == len(self) or not self.encoded(start).startswith(lowest):
            # Most misspelt words are a prefix of no other, which saves the second search.
            return range(start, start)
        # No byte of UTF-8 is 0xFF, so this sorts after every string with the prefix.
        return range(start, self._lower_bound(lowest + b"\xff" * HEAD, start))

    def _lower_bound(self, encoded: bytes, lowest: int) -> int:
        """Return the number of the first string from `lowest` on that does not sort before."""
        heads, head = self._heads, int.from_bytes(encoded[:HEAD].ljust(HEAD, b"\0"), "big")
        start = bisect_left(heads, head, lowest)
        if start == len(heads) or heads[start] != head or encoded <= self.encoded(start):
            return start
        stop = bisect_right(heads, head, start)
        return bisect_left(range(stop), encoded, start, stop, key=self.encoded)


def string_arrays(name: str, strings: Sequence[bytes]) -> Arrays:
    """Return the arrays of distinct UTF-8 strings, which must be in ascending order."""
    offsets = np.cumsum([0, *map(len, strings)])
    heads = np.array(strings, f"S{HEAD}").view(">u8").astype(np.uint64)
    utf8 = np.frombuffer(b"".join(strings), np.uint8)
    return {f"{name}.utf8": utf8, f"{name}.offsets": narrow(offsets), f"{name}.heads": heads}
