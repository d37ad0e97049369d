"""URLs in lower case, searched for a part in time that is linear in their bytes.

The two rarest bytes of the part are compared with all text, then its words of up to 8 bytes at the
places that are left, a chunk of URLs at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from mmap import mmap

import numpy as np

from service.search.postings import Integers, Mask
from service.search.top_k import NO_ORDINALS

CHUNK = 1 << 18  # bytes
"""Text that is searched at a time: it stays in the processor's cache."""
SAMPLE = 1 << 16  # bytes
"""Text that tells how frequent each byte is."""
WORD = 8  # bytes
"""The longest word that is compared at once."""
MAX_WORDS = 4
"""Words that are compared at all places. Text that repeats itself has many places in one URL, which
is then searched by itself."""
DENSE = 16  # bytes
"""A chunk with more than one place in so many bytes is searched URL by URL."""


class Urls:
    """URLs, a line each in the order of their ordinals.

    starts: int64[URLs], where each begins
    """

    def __init__(self, content: mmap | bytes, starts: Integers) -> None:
        self._content = content
        self._text = np.ndarray(len(content), np.uint8, content)
        self._starts = starts
        self._frequencies = np.bincount(self._text[:SAMPLE], minlength=256).tolist()

    def __len__(self) -> int:
        return len(self._text)

    def containing(self, part: str) -> Mask:
        """Return which URLs have a part, in any case."""
        mask = np.zeros(len(self._starts), np.bool_)
        wanted = part.lower().encode()
        if b"\n" not in wanted and len(wanted) < len(self._text):
            chunks = self._starts.searchsorted(np.arange(0, len(self._text), CHUNK))
            for first, last in pairwise(np.unique([*chunks, len(mask)]).tolist()):
                mask[first + self._search(wanted, first, last)] = True
        return mask

    def _search(self, wanted: bytes, first: int, last: int) -> Integers:
        """Return the URLs from `first` up to `last` that have a part, counted from `first`.

        URLs may be repeated.
        """
        starts = self._starts[first:last]
        begin, end = int(starts[0]), self._stop(last - 1)
        places = self._places(wanted, begin, end)
        if len(places) * DENSE > end - begin:
            return self.search_each(wanted, first, range(last - first))
        size = min(WORD, 1 << (len(wanted).bit_length() - 1))
        offsets = [*range(0, len(wanted) - size, size), len(wanted) - size]
        places = self.compare(wanted, places, offsets[:MAX_WORDS], size)
        owners = starts.searchsorted(places, side="right") - 1
        if len(offsets) <= MAX_WORDS or not len(places):
            return owners
        is_repeated = np.zeros(len(owners), np.bool_)
        is_repeated[1:] = owners[1:] == owners[:-1]
        is_repeated[:-1] |= is_repeated[1:]
        others = self.search_each(wanted, first, np.unique(owners[is_repeated]).tolist())
        places = self.compare(wanted, places[~is_repeated], offsets[MAX_WORDS:], size)
        return np.concatenate((starts.searchsorted(places, side="right") - 1, others))

    def _places(self, wanted: bytes, begin: int, end: int) -> Integers:
        """Return the places between two others where the two rarest bytes of a part fit."""
        last = end - len(wanted) + 1
        if last <= begin:
            return NO_ORDINALS
        rarest = sorted(range(len(wanted)), key=lambda offset: self._frequencies[wanted[offset]])
        fits = np.zeros((last - begin + WORD) // WORD * WORD, np.bool_)
        fits[: last - begin] = True
        for offset in rarest[:2]:
            fits[: last - begin] &= self._text[begin + offset : last + offset] == wanted[offset]
        # Few words of 8 flags have one that is set: finding these first takes a third of the time.
        words = fits.view(np.uint64)
        used = (words != 0).nonzero()[0]
        flags = words[used].view(np.bool_).nonzero()[0]
        places: Integers = (used[flags >> 3] << 3) + (flags & 7)
        return places + begin

    def compare(
        self, wanted: bytes, places: Integers, offsets: Iterable[int], size: int
    ) -> Integers:
        """Return those of the places where the words of a part at these offsets stand."""
        words = np.ndarray(
            len(self._text) - size + 1, f"<u{size}", self._content, strides=(1,)
        )  # overlapping
        for offset in offsets:
            word = int.from_bytes(wanted[offset : offset + size], "little")
            places = places[words[places + offset] == word]
            if not len(places):
                break
        return places

    def search_each(self, wanted: bytes, first: int, owners: Iterable[int]) -> Integers:
        """Return those of some URLs, counted from `first`, that have a part: one by one."""
        return np.array(
            [
                owner
                for owner in owners
                if wanted
                in self._content[int(self._starts[first + owner]) : self._stop(first + owner)]
            ],
            np.int64,
        )

    def _stop(self, ordinal: int) -> int:
        following = ordinal + 1
        return int(self._starts[following]) if following < len(self._starts) else len(self._text)
