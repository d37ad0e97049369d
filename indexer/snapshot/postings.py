"""The postings of the Whoosh index to what is searched: every one with its BM25F impact."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from indexer.snapshot.query_expansion import write_lexicon, write_names
from indexer.snapshot.readback import FIELDS
from indexer.snapshot.whoosh_index import Part
from service.search.config import SEARCH_CONFIG, SearchConfig
from service.search.postings import FREQUENT_SHARE, Summary
from service.search.top_k import BLOCK, CHAMPIONS, IMPACT_BITS, best, block_count
from service.storage.string_table import write_string_table


def compile_postings(
    parts: Sequence[Part],
    names: Sequence[str],
    prior: npt.NDArray[np.float64],
    out_dir: Path,
    engine: SearchConfig = SEARCH_CONFIG,
) -> Summary:
    """Write what the service searches: postings with impacts, the lexicon and the names.

    `names` and `prior` (float64, 0 to 1: how well known) are in listing order.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    documents = len(names)
    terms, keys, frequencies = merge_postings(parts, documents, engine)
    owners, ordinals = np.divmod(keys, max(documents, 1))
    offsets = np.searchsorted(owners, np.arange(len(terms) + 1))
    impacts = impacts_of(np.diff(offsets), ordinals, frequencies, documents, prior, engine)
    write_string_table(out_dir / "terms", terms)
    _write_arrays(out_dir, offsets, ordinals, impacts, documents)
    vocabulary = {word: term for part in parts for word, term in part.vocabulary.items()}
    write_lexicon(out_dir, vocabulary, terms, np.diff(offsets), engine)
    write_names(out_dir, names)
    summary = Summary(documents=documents, terms=len(terms), postings=len(ordinals), engine=engine)
    (out_dir / "postings.json").write_bytes(msgspec.json.encode(summary))
    return summary


def merge_postings(
    parts: Sequence[Part], documents: int, engine: SearchConfig
) -> tuple[list[bytes], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Terms in byte order, and of each posting its key and its frequency.

    Keys are `term number * documents + ordinal`, ascending. The frequency is that of BM25F: the
    sum over the fields of weighted, length-normalised counts.
    """
    terms = sorted({t for part in parts for field in part.fields.values() for t in field.terms})
    number = {term: position for position, term in enumerate(terms)}
    keys, frequencies = [], []
    for name in FIELDS:
        fields = [part.fields[name] for part in parts]
        ordinals = _joined([each.documents for each in fields], np.int64)
        ordinals += np.repeat([part.first for part in parts], [len(f.documents) for f in fields])
        owners = [np.repeat([number[term] for term in each.terms], each.sizes) for each in fields]
        keys.append(_joined(owners, np.int64) * documents + ordinals)
        counts = _joined([each.counts for each in fields], np.float64)
        frequencies.append(_normalised(ordinals, counts, documents, name, engine))
    return terms, *_summed(_joined(keys, np.int64), _joined(frequencies, np.float64))


def impacts_of(
    document_frequencies: npt.NDArray[np.int64],
    ordinals: npt.NDArray[np.int64],
    frequencies: npt.NDArray[np.float64],
    documents: int,
    prior: npt.NDArray[np.float64],
    engine: SearchConfig,
) -> npt.NDArray[np.uint16]:
    """Integer BM25F impacts (Robertson and Zaragoza 2009, section 3.6), one for each posting.

    idf · f / (k1 + f), idf = ln(1 + (N - df + 0.5) / (df + 0.5)); times 1 + bound · prior of the
    service, which a sum of impacts inherits as a whole; rounded, at least 1 so that an impact of 0
    means no match.
    """
    idf = np.log(1 + (documents - document_frequencies + 0.5) / (document_frequencies + 0.5))
    scores = np.repeat(idf, document_frequencies) * frequencies / (engine.saturation + frequencies)
    scores *= 1 + engine.prior_bound * np.clip(prior, 0, 1)[ordinals]
    return np.clip(np.rint(scores * engine.impact_scale), 1, np.iinfo(np.uint16).max).astype(
        np.uint16
    )


def _joined(parts: Sequence[Any], dtype: type) -> npt.NDArray[Any]:
    return (
        np.concatenate([np.asarray(part, dtype=dtype) for part in parts])
        if parts
        else np.empty(0, dtype=dtype)
    )


def _normalised(
    ordinals: npt.NDArray[np.int64],
    counts: npt.NDArray[np.float64],
    documents: int,
    field: str,
    engine: SearchConfig,
) -> npt.NDArray[np.float64]:
    """Counts times the field's weight, divided by 1 - b + b · length / average length.

    A length is the sum of its document's counts: exact, where Whoosh stores one byte.
    """
    lengths = np.bincount(ordinals, weights=counts, minlength=documents)
    # The average is over the documents that have the field: empty ones say nothing of the others.
    average = lengths.sum() / max(np.count_nonzero(lengths), 1)
    b = getattr(engine.length_normalisation, field)
    norms = 1 - b + b * lengths / max(average, 1e-9)
    return np.asarray(
        getattr(engine.field_weights, field) * counts / norms[ordinals], dtype=np.float64
    )


def _summed(
    keys: npt.NDArray[np.int64], frequencies: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Sums over equal keys, ascending by key and within one always in the same order."""
    if not len(keys):
        return keys, frequencies
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return keys[starts], np.add.reduceat(frequencies[order], starts)


def _write_arrays(
    out_dir: Path,
    offsets: npt.NDArray[np.int64],
    ordinals: npt.NDArray[np.int64],
    impacts: npt.NDArray[np.uint16],
    documents: int,
) -> None:
    """Write the postings of all terms, and those of frequent ones once more in blocks."""
    np.save(out_dir / "offsets.npy", offsets.astype(np.int64))
    np.save(out_dir / "postings.npy", (ordinals << IMPACT_BITS) | impacts)
    frequent = np.flatnonzero(np.diff(offsets) > documents * FREQUENT_SHARE)
    rows = np.full(len(offsets) - 1, -1, np.int32)
    rows[frequent] = np.arange(len(frequent))
    block_total = block_count(documents)
    columns = np.zeros((len(frequent), block_total * BLOCK), np.uint16)
    fewest = int(np.diff(offsets)[frequent].min(initial=CHAMPIONS))
    champions = np.zeros((len(frequent), fewest), np.int64)
    for row, term in enumerate(frequent):
        postings = slice(offsets[term], offsets[term + 1])
        columns[row, ordinals[postings]] = impacts[postings]
        champions[row] = best(ordinals[postings], impacts[postings].astype(np.int64), fewest)
    blocks = columns.reshape(len(frequent), block_total, BLOCK)
    np.save(out_dir / "frequent_rows.npy", rows)
    np.save(out_dir / "frequent_impacts.npy", blocks)
    np.save(out_dir / "frequent_bounds.npy", blocks.max(axis=2).astype(np.int32))
    bits = np.packbits(blocks > 0, axis=2, bitorder="little")
    np.save(out_dir / "frequent_champions.npy", champions)
    np.save(out_dir / "frequent_bits.npy", bits.view(np.uint64).reshape(len(frequent), block_total))
