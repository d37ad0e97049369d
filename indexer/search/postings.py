"""Compiling the postings of the Whoosh index: each gets its BM25F impact."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from indexer.search.query_expansion import write_names, write_query_expansion
from indexer.search.whoosh_index import FIELDS, Part
from service.search.config import SEARCH_CONFIG, SearchConfig
from service.search.postings import (
    BLOCK_SIZE,
    CHAMPIONS,
    DENSE_SHARE,
    IMPACT_BITS,
    Header,
    block_count,
)
from service.search.top_k import top_k

SATURATING_CALLS = 1_000_000
"""Calls in 30 days at which the popularity of a service saturates."""


def popularity(enriched: bool, calls: int) -> float:
    """Return the prior of a service, 0 to 1: half curation, half calls on a logarithmic scale."""
    use = log10(1 + max(calls, 0)) / log10(1 + SATURATING_CALLS)
    return 0.5 * enriched + 0.5 * min(1.0, use)


def compile_postings(
    parts: Sequence[Part],
    names: Sequence[str],
    prior: npt.NDArray[np.float64],
    folder: Path,
    config: SearchConfig = SEARCH_CONFIG,
) -> None:
    """Write the files of a `Searcher`; `names` and `prior` (0 to 1) are in listing order."""
    folder.mkdir(parents=True, exist_ok=True)
    documents = len(names)
    terms, keys, frequencies = _merge(parts, documents, config)
    owners, ordinals = np.divmod(keys, max(documents, 1))
    offsets = np.searchsorted(owners, np.arange(len(terms) + 1))
    document_frequencies = np.diff(offsets)
    impacts = _impacts(document_frequencies, ordinals, frequencies, documents, prior, config)
    _write_postings(folder, offsets, ordinals, impacts, documents)
    vocabulary = {word: term for part in parts for word, term in part.vocabulary.items()}
    write_query_expansion(folder, vocabulary, terms, document_frequencies, config)
    write_names(folder, names)
    header = Header(documents, len(terms), len(ordinals), config)
    (folder / "header.json").write_bytes(msgspec.json.encode(header))


def _merge(
    parts: Sequence[Part], documents: int, config: SearchConfig
) -> tuple[list[bytes], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return all terms in byte order, and the key and the BM25F frequency of each posting.

    Keys are `term number * documents + ordinal`, ascending. The frequency is the sum over the
    fields of weighted, length-normalised counts.
    """
    terms = sorted({t for part in parts for field in part.fields.values() for t in field.terms})
    number = {term: position for position, term in enumerate(terms)}
    keys, frequencies = [], []
    for name in FIELDS:
        fields = [part.fields[name] for part in parts]
        ordinals = _concatenate([field.documents for field in fields], np.int64)
        ordinals += np.repeat([part.start for part in parts], [len(f.documents) for f in fields])
        owners = [np.repeat([number[term] for term in f.terms], f.sizes) for f in fields]
        keys.append(_concatenate(owners, np.int64) * documents + ordinals)
        counts = _concatenate([field.counts for field in fields], np.float64)
        frequencies.append(_normalise(ordinals, counts, documents, name, config))
    return terms, *_sum_by_key(_concatenate(keys, np.int64), _concatenate(frequencies, np.float64))


def _impacts(
    document_frequencies: npt.NDArray[np.int64],
    ordinals: npt.NDArray[np.int64],
    frequencies: npt.NDArray[np.float64],
    documents: int,
    prior: npt.NDArray[np.float64],
    config: SearchConfig,
) -> npt.NDArray[np.uint16]:
    """Return the BM25F impact of each posting (Robertson and Zaragoza 2009, section 3.6).

    idf · f / (k1 + f) with idf = ln(1 + (N - df + 0.5) / (df + 0.5)), times 1 + bound · prior of
    the service, rounded, and 1 at least: an impact of 0 would be no match.
    """
    idf = np.log(1 + (documents - document_frequencies + 0.5) / (document_frequencies + 0.5))
    scores = np.repeat(idf, document_frequencies) * frequencies / (config.saturation + frequencies)
    scores *= 1 + config.prior_bound * np.clip(prior, 0, 1)[ordinals]
    impacts = np.clip(np.rint(scores * config.impact_scale), 1, np.iinfo(np.uint16).max)
    return impacts.astype(np.uint16)


def _concatenate(arrays: Sequence[npt.ArrayLike], dtype: type) -> npt.NDArray[Any]:
    return np.concatenate([np.empty(0, dtype), *(np.asarray(array, dtype) for array in arrays)])


def _normalise(
    ordinals: npt.NDArray[np.int64],
    counts: npt.NDArray[np.float64],
    documents: int,
    field: str,
    config: SearchConfig,
) -> npt.NDArray[np.float64]:
    """Return the counts times the field's weight, divided by 1 - b + b · length / average length.

    Lengths are sums of counts: exact, where Whoosh stores one byte.
    """
    lengths = np.bincount(ordinals, weights=counts, minlength=documents)
    # Documents without the field would lower the average length of the others.
    average = lengths.sum() / max(np.count_nonzero(lengths), 1)
    b = getattr(config.length_normalisation, field)
    norms = 1 - b + b * lengths / max(average, 1e-9)
    return np.asarray(getattr(config.field_weights, field) * counts / norms[ordinals], np.float64)


def _sum_by_key(
    keys: npt.NDArray[np.int64], frequencies: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the distinct keys, ascending, and the sums of their frequencies.

    The sort is stable, so that the frequencies of a key are always added in the same order.
    """
    if not len(keys):
        return keys, frequencies
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return keys[starts], np.add.reduceat(frequencies[order], starts)


def _write_postings(
    folder: Path,
    offsets: npt.NDArray[np.int64],
    ordinals: npt.NDArray[np.int64],
    impacts: npt.NDArray[np.uint16],
    documents: int,
) -> None:
    """Write the files of `PostingLists`: the postings of all terms, and the dense columns."""
    np.save(folder / "offsets.npy", offsets.astype(np.int64))
    np.save(folder / "postings.npy", (ordinals << IMPACT_BITS) | impacts)
    document_frequencies = np.diff(offsets)
    dense = np.flatnonzero(document_frequencies > documents * DENSE_SHARE)
    rows = np.full(len(offsets) - 1, -1, np.int32)
    rows[dense] = np.arange(len(dense))
    blocks_per_term = block_count(documents)
    columns = np.zeros((len(dense), blocks_per_term * BLOCK_SIZE), np.uint16)
    fewest = int(document_frequencies[dense].min(initial=CHAMPIONS))
    champions = np.zeros((len(dense), fewest), np.int64)
    for row, term in enumerate(dense):
        postings = slice(offsets[term], offsets[term + 1])
        columns[row, ordinals[postings]] = impacts[postings]
        champions[row] = top_k(ordinals[postings], impacts[postings].astype(np.int64), fewest)
    blocks = columns.reshape(len(dense), blocks_per_term, BLOCK_SIZE)
    bits = np.packbits(blocks > 0, axis=2, bitorder="little").view(np.uint64)
    np.save(folder / "dense_rows.npy", rows)
    np.save(folder / "dense_impacts.npy", blocks)
    np.save(folder / "dense_maxima.npy", blocks.max(axis=2).astype(np.int32))
    np.save(folder / "dense_bits.npy", bits.reshape(len(dense), blocks_per_term))
    np.save(folder / "dense_champions.npy", champions)
