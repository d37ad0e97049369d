"""The arrays of a `QueryParser`: words, terms, and the names of the services."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from indexer.derive.ragged import AnyIntegers
from service.arrays.container import Arrays
from service.arrays.string_table import string_arrays
from service.arrays.texts import text_hash
from service.search.analysis import name_key
from service.search.spelling import correctable


def lexicon_arrays(
    entries: Sequence[bytes],
    terms: Sequence[bytes],
    document_frequencies: AnyIntegers,
    service_frequencies: AnyIntegers,
) -> Arrays:
    """Return the terms and the words in byte order, and their columns.

    An entry is a word, a blank, and its term. Entries are in the order of their words, since no
    character of a word sorts before the blank. Frequencies are of the terms.
    """
    number = {term: position for position, term in enumerate(terms)}
    pairs = [entry.split(b" ") for entry in entries]
    words = [word for word, _ in pairs]
    columns = {
        **string_arrays("terms", terms),
        **string_arrays("words", words),
        "document_frequencies": document_frequencies.astype(np.int32),
        "group_frequencies": service_frequencies.astype(np.int32),
        "word_terms": np.fromiter((number[term] for _, term in pairs), np.int32, len(pairs)),
    }
    return columns | correctable([word.decode() for word in words])


def name_arrays(names: Sequence[str]) -> Arrays:
    """Return the sorted hashes of the services' name keys, and the service of each.

    Empty keys are left out.
    """
    keys = [name_key(name) for name in names]
    named = np.flatnonzero([bool(key) for key in keys])
    hashes = np.fromiter((text_hash(keys[number]) for number in named.tolist()), np.uint64)
    order = np.argsort(hashes, kind="stable")
    services = named[order].astype(np.int32)
    return {"names.hashes": hashes[order], "names.services": services}
