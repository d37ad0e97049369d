"""Order of hashes: that of a stable sort, also where their highest bits are equal."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from service.storage.hash_table import stable_order

HIGH = st.integers(0, 3).map(lambda bits: bits << 62)
LOW = st.integers(0, 7)


@given(st.lists(st.builds(int.__add__, HIGH, LOW) | st.integers(0, 2**64 - 1)))
def test_hashes_are_ordered_as_by_a_stable_sort(hashes: list[int]) -> None:
    array = np.array(hashes, np.uint64)
    assert stable_order(array).tolist() == sorted(range(len(hashes)), key=hashes.__getitem__)
