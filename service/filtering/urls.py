"""URLs in lower case, searched for a part in time that is linear in their bytes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from service.search.postings import Integers, Mask

WORD = 8  # bytes
HEAD = 4 * WORD
"""Bytes of a part that are compared at all places; URLs with these are searched one by one."""


class Urls:
    """URLs, a line each in the order of their ordinals.

    text: uint8, contiguous
    starts: int64[URLs], where each begins
    """

    def __init__(self, text: npt.NDArray[np.uint8], starts: Integers) -> None:
        self._text = text
        # The eight bytes from each place on; a word that the end cuts off is none.
        self._words = np.ndarray(max(len(text) - WORD + 1, 0), "<u8", text.data, strides=(1,))
        self._starts = starts

    def __len__(self) -> int:
        return len(self._text)

    def containing(self, part: str) -> Mask:
        """Return which URLs have a part, in any case."""
        mask = np.zeros(len(self._starts), np.bool_)
        wanted, text = part.lower().encode(), self._text
        if b"\n" in wanted or len(wanted) > len(text):
            return mask
        places = np.flatnonzero(text[: len(text) - len(wanted) + 1] == wanted[0])
        if len(wanted) < WORD:
            for offset, byte in enumerate(wanted[1:], 1):
                places = places[text[places + offset] == byte]
        else:
            for offset in {*range(0, min(len(wanted), HEAD) - WORD + 1, WORD), len(wanted) - WORD}:
                word = np.uint64(int.from_bytes(wanted[offset : offset + WORD], "little"))
                places = places[self._words[places + offset] == word]
        owners = np.searchsorted(self._starts, places, side="right") - 1
        owners = owners[np.diff(owners, prepend=-1) > 0]
        if len(wanted) > HEAD:
            stops = np.append(self._starts, len(text))
            spans = zip(self._starts[owners].tolist(), stops[owners + 1].tolist(), strict=True)
            owners = owners[[wanted in text[slice(*span)].tobytes() for span in spans]]
        mask[owners] = True
        return mask
