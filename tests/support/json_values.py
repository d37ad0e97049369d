"""Values that JSON can hold, for properties of readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

ANY_TEXT = st.text()


def json_values(
    *texts: str,
    keys: Sequence[str] | st.SearchStrategy[str] = ANY_TEXT,
    text: st.SearchStrategy[str] = ANY_TEXT,
    leaves: int = 12,
) -> st.SearchStrategy[Any]:
    """Return any JSON, with these texts and keys among its own.

    leaves: how many scalars a value has at the most
    """
    names = keys if isinstance(keys, st.SearchStrategy) else st.sampled_from(keys)
    numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    words = st.sampled_from(texts) | text if texts else text
    scalars: st.SearchStrategy[Any] = st.none() | st.booleans() | numbers | words
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=5),
        max_leaves=leaves,
    )
