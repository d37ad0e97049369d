"""Compiling postings: the counts of terms by field become one BM25F impact for each document.

Terms are compiled by ranges, so that the memory of the temporaries does not grow with a catalogue.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from indexer.columns.ragged import AnyIntegers, bounds_of, is_first
from indexer.search.lexicon import lexicon_arrays, name_arrays
from indexer.search.parts import Documents, Part
from indexer.segments.postings import GONE, FieldPostings
from service.search.config import SEARCH_CONFIG, SearchConfig
from service.search.postings import (
    BLOCK_SIZE,
    IMPACT_BITS,
    Bits,
    Header,
    Integers,
    block_count,
)
from service.search.top_k import pack
from service.storage.container import writing_arrays

RANGE = 1 << 19
"""Postings that are sorted at a time: temporaries of 4 MB are reused, larger ones mapped anew."""

Doubles = npt.NDArray[np.float64]
Impacts = npt.NDArray[np.uint16]
DENSE_TYPES = {"impacts": "<u2", "maxima": "<i4", "bits": "<u8", "group_bits": "<u8"}


class _Run(NamedTuple):
    """The postings of one field of one part, by the ranks of their terms, ascending.

    norms: of the field, by document or, where `of_services`, by service
    """

    weight: float
    norms: Doubles
    of_services: bool
    terms: Integers
    bounds: Integers
    documents: npt.NDArray[np.int32]
    counts: AnyIntegers


class _Compiled(NamedTuple):
    """The postings of a range of terms: the count of each, their documents and impacts."""

    sizes: Integers
    documents: Integers
    impacts: Impacts


def compile_postings(
    parts: Iterable[Part],
    names: Sequence[str],
    prior: Doubles,
    documents: Documents,
    path: Path,
    config: SearchConfig = SEARCH_CONFIG,
) -> None:
    """Write the index of a `Searcher` and a `QueryParser`.

    names: of the services
    prior: float64[documents], -1 to 1
    """
    terms, words, runs = _collect(parts, documents, config)
    sizes, dense = [np.empty(0, np.int64)], _Dense(documents)
    group_sizes = [np.empty(0, np.int64)]
    most_sparse = len(prior) * config.dense_share

    def sparse() -> Iterator[Integers]:
        for compiled in _compile(runs, len(terms), documents, prior, config):
            sizes.append(compiled.sizes)
            group_sizes.append(_count_groups(compiled, documents))
            is_dense = compiled.sizes > most_sparse
            rare = np.repeat(~is_dense, compiled.sizes)
            bounds = bounds_of(compiled.sizes)
            for term in np.flatnonzero(is_dense).tolist():
                own = slice(*bounds[term : term + 2].tolist())
                dense.add(compiled.documents[own], compiled.impacts[own])
            yield compiled.documents[rare] << IMPACT_BITS | compiled.impacts[rare]

    with writing_arrays(path) as writer:
        writer.stream("postings", sparse(), np.int64)
        document_frequencies = np.concatenate(sizes)
        is_dense = document_frequencies > most_sparse
        writer.write("offsets", bounds_of(np.where(is_dense, 0, document_frequencies)))
        writer.write("rows", np.where(is_dense, np.cumsum(is_dense) - 1, -1).astype(np.int32))
        for name, columns in dense.arrays().items():
            writer.stream(name, columns, DENSE_TYPES[name])
        writer.write("penalties", _size_penalties(documents, config))
        writer.add(name_arrays(names))
        writer.add(lexicon_arrays(words, terms, document_frequencies, np.concatenate(group_sizes)))
        header = Header(len(prior), int(documents.endpoints[-1]), len(names), len(terms), config)
        writer.stream("header", [msgspec.json.encode(header)])


def _size_penalties(documents: Documents, config: SearchConfig) -> npt.NDArray[np.uint16]:
    """Return the penalty of each service, by which the sum of a document is lowered."""
    sizes = np.bincount(documents.services, minlength=len(documents.own))
    logarithms = np.log(np.maximum(sizes / config.size_penalty_from, 1))
    penalties = config.size_penalty * config.impact_scale * logarithms
    return np.minimum(np.rint(penalties), np.iinfo(np.uint16).max).astype(np.uint16)


def _collect(
    parts: Iterable[Part], documents: Documents, config: SearchConfig
) -> tuple[list[bytes], list[bytes], list[_Run]]:
    """Return the terms and the words in byte order, and the runs in the order of fields."""
    words: set[bytes] = set()
    fields: dict[tuple[str, bool], list[tuple[list[bytes], FieldPostings]]] = defaultdict(list)
    for part in parts:
        words.update(part.words)
        for name, postings in part.fields.items():
            fields[name, part.of_services].append((postings.terms.texts(), postings))
    terms = sorted({term for own in fields.values() for texts, _ in own for term in texts})
    ranks = {term: rank for rank, term in enumerate(terms)}
    shares = np.diff(documents.endpoints) + np.diff(documents.others)
    shares[documents.own != GONE] = 0  # a service that is a document has fields of its own
    runs = []
    for name, weight in config.field_weights.items():
        sides = [(of_services, fields[name, of_services]) for of_services in (False, True)]
        for of_services, norms in _norms([own for _, own in sides], shares, documents, config):
            runs += [
                _Run(
                    weight,
                    norms,
                    of_services,
                    np.fromiter(map(ranks.__getitem__, texts), np.int64, len(texts)),
                    bounds_of(postings.sizes),
                    postings.documents,
                    postings.counts,
                )
                for texts, postings in sides[of_services][1]
            ]
    return terms, sorted(words), runs


def _norms(
    sides: Sequence[Sequence[tuple[list[bytes], FieldPostings]]],
    shares: Integers,
    documents: Documents,
    config: SearchConfig,
) -> Iterator[tuple[bool, Doubles]]:
    """Yield the norms of a field by document, then by service: 1 - b + b · length / average.

    Lengths are sums of the counts of terms. The average leaves out documents without the field,
    which would lower it.

    sides: the postings of the field, of documents and of services
    shares: how many documents have the fields of a service
    """
    b, lengths = config.length_normalisation, list[Doubles]()
    for own, count in zip(sides, (len(documents.services), len(shares)), strict=True):
        lengths.append(np.zeros(count))
        for _, postings in own:
            lengths[-1] += np.bincount(postings.documents, postings.counts, count)
    every = np.ones(len(lengths[0]), np.int64)
    for of_services, each, weights in zip((False, True), lengths, (every, shares), strict=True):
        average = float(each @ weights) / max(int(weights[each > 0].sum()), 1)
        yield of_services, 1 - b + b * each / max(average, 1e-9)


def _compile(
    runs: Sequence[_Run],
    terms: int,
    documents: Documents,
    prior: Doubles,
    config: SearchConfig,
) -> Iterator[_Compiled]:
    """Yield the compiled postings of ranges of terms: of about RANGE, or of one term."""
    sizes = np.zeros(terms, np.int64)
    owned = np.diff(documents.endpoints) + np.diff(documents.others)
    owned[documents.own != GONE] = 0
    for run in runs:
        counted = owned[run.documents] if run.of_services else np.ones(len(run.documents), np.int64)
        sizes[run.terms] += np.diff(bounds_of(counted)[run.bounds])
    for start, stop in pairwise(_cuts(sizes)):
        slices = [piece for run in runs for piece in _expand(run, start, stop, documents, owned)]
        ranks, ordinals, frequencies = (np.concatenate(each) for each in zip(*slices, strict=True))
        if stop - start == 1:
            every = np.bincount(ordinals, frequencies, len(prior)).astype(np.float64, copy=False)
            ordinals = np.flatnonzero(every)
            counts, sums = np.array([len(ordinals)]), every[ordinals]
        else:
            ranks, ordinals, sums = _sum(ranks, ordinals, frequencies, len(prior))
            counts = np.bincount(ranks, minlength=stop - start)
        yield _Compiled(counts, ordinals, _score(counts, sums, prior[ordinals], len(prior), config))


def _cuts(sizes: Integers) -> list[int]:
    """Return where ranges of terms begin, and the end; a term of RANGE postings stands alone."""
    cuts, total = [0], 0
    for term, size in enumerate(sizes.tolist()):
        if total and total + size > RANGE:
            cuts.append(term)
            total = 0
        total += size
    return [*cuts, len(sizes)] if len(sizes) else [0]


def _expand(
    run: _Run, start: int, stop: int, documents: Documents, owned: Integers
) -> Iterator[tuple[Integers, Integers, Doubles]]:
    """Yield the terms, documents and normalised frequencies of the postings of a range of terms.

    A posting of a service is repeated for each of its documents.
    """
    first, last = np.searchsorted(run.terms, (start, stop)).tolist()
    own = slice(*run.bounds[[first, last]].tolist())
    ordinals = run.documents[own]
    ranks = np.repeat(run.terms[first:last] - start, np.diff(run.bounds[first : last + 1]))
    frequencies = run.weight * run.counts[own].astype(np.float64) / run.norms[ordinals]
    if not run.of_services:
        yield ranks, ordinals.astype(np.int64), frequencies
        return
    for firsts in (documents.endpoints, documents.others):
        counts = np.where(owned[ordinals] > 0, firsts[ordinals + 1] - firsts[ordinals], 0)
        bounds = bounds_of(counts)
        numbers = np.arange(bounds[-1]) + np.repeat(firsts[ordinals] - bounds[:-1], counts)
        yield np.repeat(ranks, counts), numbers, np.repeat(frequencies, counts)


def _sum(
    ranks: Integers, ordinals: Integers, frequencies: Doubles, documents: int
) -> tuple[Integers, Integers, Doubles]:
    """Return the postings by term and document, with the sums of their frequencies.

    The lowest bits of each key are the position of its posting, so that the sort is stable and the
    frequencies of a document are added in the order of fields.
    """
    position_bits, ordinal_bits = len(ranks).bit_length(), documents.bit_length()
    keys = (ranks << ordinal_bits | ordinals) << position_bits
    keys |= np.arange(len(keys))
    keys.sort()
    order = keys & ((1 << position_bits) - 1)
    keys >>= position_bits
    starts = is_first(keys)
    sums = np.bincount(np.cumsum(starts) - 1, frequencies[order]).astype(np.float64, copy=False)
    keys = keys[starts]
    return keys >> ordinal_bits, keys & ((1 << ordinal_bits) - 1), sums


def _score(
    sizes: Integers, frequencies: Doubles, prior: Doubles, documents: int, config: SearchConfig
) -> Impacts:
    """Return the BM25F impact of each posting (Robertson and Zaragoza 2009, section 3.6).

    idf · f / (k1 + f) with idf = ln(1 + (N - df + 0.5) / (df + 0.5)), times 1 + bound · prior of
    the document, rounded, and 1 at least: an impact of 0 would be no match.
    """
    idf = np.log(1 + (documents - sizes + 0.5) / (sizes + 0.5))
    scores = np.repeat(idf, sizes) * frequencies
    scores /= config.saturation + frequencies
    scores *= 1 + config.prior_bound * np.clip(prior, -1, 1)
    impacts = np.clip(np.rint(scores * config.impact_scale), 1, np.iinfo(np.uint16).max)
    return impacts.astype(np.uint16)


def _count_groups(compiled: _Compiled, documents: Documents) -> Integers:
    """Return how many services have each term."""
    services = max(len(documents.own), 1)
    terms = np.repeat(np.arange(len(compiled.sizes)), compiled.sizes)
    keys = np.unique(terms * services + documents.services[compiled.documents])
    return np.bincount(keys // services, minlength=len(compiled.sizes))


class _Dense:
    """The columns of frequent terms."""

    def __init__(self, documents: Documents) -> None:
        self._services, self._groups = documents.services, len(documents.own)
        self._blocks = block_count(len(documents.services))
        self._impacts: list[Impacts] = []
        self._group_bits: list[Bits] = []

    def add(self, documents: Integers, impacts: Impacts) -> None:
        """Add the next term."""
        column = np.zeros((1, self._blocks, BLOCK_SIZE), np.uint16)
        column.reshape(-1)[documents] = impacts
        self._impacts.append(column)
        groups = np.zeros(self._groups, np.bool_)
        groups[self._services[documents]] = True
        self._group_bits.append(pack(groups)[np.newaxis])

    def arrays(self) -> dict[str, Iterable[npt.NDArray[np.generic]]]:
        """Return the arrays of all terms, each term by term."""
        empty = np.empty((0, self._blocks, BLOCK_SIZE), np.uint16)
        impacts = [empty, *self._impacts]
        bits = (np.packbits(each > 0, axis=2, bitorder="little") for each in impacts)
        groups = np.empty((0, block_count(self._groups)), np.uint64)
        return {
            "impacts": impacts,
            "maxima": (each.max(axis=2).astype(np.int32) for each in impacts),
            "bits": (each.view(np.uint64).reshape(-1, self._blocks) for each in bits),
            "group_bits": [groups, *self._group_bits],
        }
