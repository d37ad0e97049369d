"""Compiling postings: the tokens of all fields become one BM25F impact for each document.

Terms are compiled by ranges, so that the memory of the temporaries does not grow with a catalogue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from indexer.derive.columns import RecordColumns
from indexer.derive.ragged import AnyIntegers, Ragged, bounds_of, is_first
from indexer.index.documents import Documents, FieldTokens, OtherTexts, fields_of
from indexer.index.lexicon import lexicon_arrays, name_arrays
from service.arrays.container import writing_arrays
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

RANGE = 1 << 19
"""Postings that are sorted at a time: temporaries of 4 MB are reused, larger ones mapped anew."""

Doubles = npt.NDArray[np.float64]
Impacts = npt.NDArray[np.uint16]
DENSE_TYPES = {"impacts": "<u2", "maxima": "<i4", "bits": "<u8", "group_bits": "<u8"}


class _Field(NamedTuple):
    """The postings of one field, term after term.

    norms: by document or, where `of_services`, by service
    bounds: int64[terms + 1], the postings of each term
    """

    weight: float
    norms: Doubles
    of_services: bool
    bounds: Integers
    owners: npt.NDArray[np.int32]
    counts: AnyIntegers


class _Compiled(NamedTuple):
    """The postings of a range of terms: the count of each, their documents and impacts."""

    sizes: Integers
    documents: Integers
    impacts: Impacts


def compile_postings(
    columns: RecordColumns,
    others: OtherTexts,
    documents: Documents,
    prior: Doubles,
    path: Path,
    config: SearchConfig = SEARCH_CONFIG,
) -> None:
    """Write the file of an `Index` and a `QueryParser` of `service.search`.

    prior: float64[documents], -1 to 1
    """
    used = _used(
        columns.strings, [*columns.service_tokens.values(), *columns.endpoint_tokens.values()]
    )
    used_by_others = _used(others.strings, others.tokens.values())
    entries = sorted({*used.values(), *used_by_others.values()})
    terms = sorted({entry.partition(b" ")[2] for entry in entries})
    rank_of = {term: rank for rank, term in enumerate(terms)}
    ranks = _ranks(columns.strings, used, rank_of)
    other_ranks = _ranks(others.strings, used_by_others, rank_of)
    places = fields_of(columns, ranks, others, other_ranks, documents)
    tokens = [each for each in places if each.tokens.items.size]
    fields = [*_fields(tokens, len(terms), documents, config)]
    sizes, dense = [np.empty(0, np.int64)], _Dense(documents)
    group_sizes = [np.empty(0, np.int64)]
    most_sparse = len(prior) * config.dense_share

    def sparse() -> Iterator[Integers]:
        for compiled in _compile(fields, len(terms), documents, prior, config):
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
        for name, arrays in dense.arrays().items():
            writer.stream(name, arrays, DENSE_TYPES[name])
        writer.write("penalties", _size_penalties(documents, config))
        writer.add(name_arrays(columns.service_runs["name"].strings()))
        services = np.concatenate(group_sizes)
        writer.add(lexicon_arrays(entries, terms, document_frequencies, services))
        endpoints, groups = int(documents.endpoints[-1]), len(documents.own)
        header = Header(len(prior), endpoints, groups, len(terms), config)
        writer.stream("header", [msgspec.json.encode(header)])


def _size_penalties(documents: Documents, config: SearchConfig) -> npt.NDArray[np.uint16]:
    """Return the penalty of each service, by which the sum of a document is lowered."""
    sizes = np.bincount(documents.services, minlength=len(documents.own))
    logarithms = np.log(np.maximum(sizes / config.size_penalty_from, 1))
    penalties = config.size_penalty * config.impact_scale * logarithms
    return np.minimum(np.rint(penalties), np.iinfo(np.uint16).max).astype(np.uint16)


def _used(strings: Ragged, tokens: Iterable[Ragged]) -> dict[int, bytes]:
    """Return the strings that are tokens, by number."""
    is_used = np.zeros(len(strings.sizes), np.bool_)
    for each in tokens:
        is_used[each.items] = True
    numbers = np.flatnonzero(is_used)
    return dict(zip(numbers.tolist(), strings.take(numbers).texts(), strict=True))


def _ranks(strings: Ragged, used: dict[int, bytes], rank_of: dict[bytes, int]) -> Integers:
    """Return the ranks of the terms of strings, by number."""
    ranks = np.zeros(len(strings.sizes), np.int64)
    ranks[[*used]] = [rank_of[entry.partition(b" ")[2]] for entry in used.values()]
    return ranks


def _fields(
    tokens: Sequence[FieldTokens], terms: int, documents: Documents, config: SearchConfig
) -> Iterator[_Field]:
    """Yield the postings of fields in the order of their weights: of documents, then of services.

    A norm is 1 - b + b · length / average. The average leaves out documents without the field,
    which would lower it.
    """
    b, shares = config.length_normalisation, documents.shares
    for name, weight in config.field_weights.items():
        for of_services in (False, True):
            own = [each for each in tokens if (each.name, each.of_services) == (name, of_services)]
            if not own:
                continue
            weights = shares if of_services else np.ones(len(documents.services), np.int64)
            lengths = np.zeros(len(weights), np.int64)
            for each in own:
                lengths[each.owners] = each.tokens.sizes
            average = float(lengths @ weights) / max(int(weights[lengths > 0].sum()), 1)
            norms = np.asarray(1 - b + b * lengths / max(average, 1e-9), np.float64)
            yield _Field(weight, norms, of_services, *_count(own, terms, len(weights)))


def _count(
    tokens: Sequence[FieldTokens], terms: int, owners: int
) -> tuple[Integers, npt.NDArray[np.int32], AnyIntegers]:
    """Return the bounds of each term, the owners that have it, ascending, and its counts there."""
    keys = [
        each.ranks[each.tokens.items] * owners + np.repeat(each.owners, each.tokens.sizes)
        for each in tokens
    ]
    joined = np.concatenate(keys)
    del keys
    joined.sort()
    starts = np.flatnonzero(is_first(joined))
    counts = np.diff(starts, append=len(joined))
    ranks, numbers = np.divmod(joined[starts], max(owners, 1))
    bounds = bounds_of(np.bincount(ranks, minlength=terms))
    return (
        bounds,
        numbers.astype(np.int32),
        counts.astype(np.min_scalar_type(counts.max(initial=0))),
    )


def _compile(
    fields: Sequence[_Field],
    terms: int,
    documents: Documents,
    prior: Doubles,
    config: SearchConfig,
) -> Iterator[_Compiled]:
    """Yield the compiled postings of ranges of terms: of less than twice RANGE, or of one term."""
    shares = documents.shares
    sizes = np.zeros(terms, np.int64)
    for field in fields:
        weights = (
            shares[field.owners] if field.of_services else np.ones(len(field.owners), np.int64)
        )
        sizes += np.diff(bounds_of(weights)[field.bounds])
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // RANGE, prepend=0)).tolist()
    cuts += (np.flatnonzero(sizes > RANGE) + 1).tolist()  # those have a range of their own
    for start, stop in pairwise(sorted({0, *cuts, terms})):
        slices = [_expand(field, start, stop, documents, shares) for field in fields]
        ranks, ordinals, frequencies = (np.concatenate(each) for each in zip(*slices, strict=True))
        ranks, ordinals, sums = _sum(ranks, ordinals, frequencies, len(prior))
        counts = np.bincount(ranks, minlength=stop - start)
        yield _Compiled(counts, ordinals, _score(counts, sums, prior[ordinals], len(prior), config))


def _expand(
    field: _Field, start: int, stop: int, documents: Documents, shares: Integers
) -> tuple[Integers, Integers, Doubles]:
    """Return the terms, documents and normalised frequencies of the postings of a range of terms.

    A posting of a service is repeated for each of its documents.
    """
    own = slice(*field.bounds[[start, stop]].tolist())
    owners = field.owners[own].astype(np.int64)
    ranks = np.repeat(np.arange(stop - start), np.diff(field.bounds[start : stop + 1]))
    frequencies = field.weight * field.counts[own].astype(np.float64) / field.norms[owners]
    if not field.of_services:
        return ranks, owners, frequencies
    counts = shares[owners]
    endpoints = np.repeat(np.diff(documents.endpoints)[owners], counts)
    bounds = bounds_of(counts)
    places = np.arange(bounds[-1]) - np.repeat(bounds[:-1], counts)
    owners = np.repeat(owners, counts)
    starts = np.where(
        places < endpoints, documents.endpoints[owners], documents.others[owners] - endpoints
    )
    return np.repeat(ranks, counts), starts + places, np.repeat(frequencies, counts)


def _sum(
    ranks: Integers, ordinals: Integers, frequencies: Doubles, documents: int
) -> tuple[Integers, Integers, Doubles]:
    """Return the postings by term and document, with the sums of their frequencies.

    The lowest bits of each key are the position of its posting, so that the sort is stable and the
    frequencies of a document are added in the order of fields. A range has few postings or one
    term, so that keys have 64 bits up to 16 million documents.
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
    keys = np.repeat(np.arange(len(compiled.sizes)) * services, compiled.sizes)
    keys += documents.services[compiled.documents]
    keys.sort()
    return np.bincount(keys[is_first(keys)] // services, minlength=len(compiled.sizes))


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
