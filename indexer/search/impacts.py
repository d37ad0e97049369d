"""Compiling a range of terms: the BM25F impact of each posting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexer.columns.ragged import is_first
from indexer.search.runs import DOCUMENTS, POSTINGS, Doubles, Run
from service.search.config import SearchConfig
from service.search.postings import BLOCK_SIZE, CHAMPIONS, IMPACT_BITS, Integers, block_count
from service.search.top_k import ORDINAL_MASK, SUM_BITS, first_keys, pack
from service.storage import layouts
from service.storage.container import Array, Layout, open_arrays, writing_arrays

CHUNK = 1 << 19
"""Postings that are sorted at a time: temporaries of 4 MB are reused, larger ones mapped anew."""
FREQUENT = 1 << 15
"""Postings of a term from which they are added up by document: sorting them takes longer."""

DENSE = ("impacts", "maxima", "bits", "group_bits", "champions")
RANGE = Layout(
    "The postings of a range of terms.",
    document_frequencies=Array("<i4", "terms"),
    group_frequencies=Array("<i4", "terms"),
    **{name: layouts.POSTINGS.arrays[name] for name in ("postings", *DENSE)},
)


class ScoredDocuments(NamedTuple):
    """The documents that terms are compiled for.

    path: of DOCUMENTS
    endpoints: how many of the first documents are endpoints
    penalties: uint16[services], subtracted from the sum of a document
    """

    path: Path
    endpoints: int
    penalties: npt.NDArray[np.uint16]
    config: SearchConfig


class _Postings(NamedTuple):
    """The rank of the term, the document and the BM25F frequency of each posting."""

    terms: Integers
    ordinals: Integers
    frequencies: Doubles


def compile_terms(path: Path, runs: Sequence[Run], terms: int, scored: ScoredDocuments) -> None:
    """Write RANGE: the postings of the first `terms` terms of the runs."""
    compiler = _Compiler(runs, scored)
    for chunk in compiler.chunks(terms):
        compiler.compile(chunk)
    compiler.write(path)


class _Compiler:
    """Compiles the terms of runs, in ascending order."""

    def __init__(self, runs: Sequence[Run], scored: ScoredDocuments) -> None:
        arrays = open_arrays(scored.path, DOCUMENTS, cold=DOCUMENTS.arrays)
        self._services, self._prior = arrays["services"], arrays["prior"]
        self._firsts = arrays["first_endpoints"], arrays["first_others"]
        self._shares = arrays["shares"]
        self._norms = {False: arrays["norms"], True: arrays["service_norms"]}
        self._endpoints, self._penalties = scored.endpoints, scored.penalties
        self._config = scored.config
        self._weights = [*scored.config.field_weights.values()]
        self._runs = [run for run in runs if len(run.terms)]
        self._parts = {
            run.path: open_arrays(run.path, POSTINGS, cold=POSTINGS.arrays) for run in self._runs
        }
        self._frequencies = [np.empty(0, np.int64)]
        self._group_frequencies = [np.empty(0, np.int64)]
        self._postings = [np.empty(0, np.int64)]
        blocks, group_blocks = block_count(len(self._services)), block_count(len(self._penalties))
        self._impacts = [np.empty((0, blocks, BLOCK_SIZE), np.uint16)]
        self._group_bits = [np.empty((0, group_blocks), np.uint64)]
        self._champions = [np.empty((0, CHAMPIONS), np.int64)]

    def chunks(self, terms: int) -> Iterator[range]:
        """Yield ranges of the terms that have up to CHUNK postings, and frequent terms alone."""
        sizes = np.zeros(terms, np.int64)
        for run in self._runs:
            counts = np.diff(run.bounds)
            if run.of_services:
                owners = np.repeat(np.arange(len(counts)), counts)
                shares = self._shares.take(self._documents(run))
                counts = np.bincount(owners, shares, len(counts)).astype(np.int64)
            sizes[run.terms] += counts
        most_rare = max(FREQUENT, len(self._services) * self._config.dense_share)
        is_frequent = (sizes > most_rare).tolist()
        start, total = 0, 0
        for term, size in enumerate(sizes.tolist()):
            if (is_frequent[term] or total + size > CHUNK) and term > start:
                yield range(start, term)
                start, total = term, 0
            total += size
            if is_frequent[term]:
                yield range(term, term + 1)
                start, total = term + 1, 0
        if start < terms:
            yield range(start, terms)

    def compile(self, terms: range) -> None:
        """Compile the next terms."""
        runs = [run.between(terms.start, terms.stop) for run in self._runs]
        slices = (each for run in runs if len(run.terms) for each in self._expand(run))
        add_up = self._sum_by_document if len(terms) == 1 else self._sum_by_key
        postings = add_up(slices)
        counts = np.bincount(postings.terms, minlength=len(terms))
        self._add(counts, postings.ordinals, self._score(counts, postings))

    def write(self, path: Path) -> None:
        """Write the postings of the terms."""
        with writing_arrays(path, RANGE) as writer:
            for name, pieces in (
                ("document_frequencies", self._frequencies),
                ("group_frequencies", self._group_frequencies),
            ):
                writer.write(name, np.concatenate(pieces).astype(np.int32))
            writer.stream("postings", self._postings)
            writer.stream("impacts", self._impacts)
            writer.stream("maxima", (each.max(axis=2).astype(np.int32) for each in self._impacts))
            writer.stream("bits", map(_bits, self._impacts))
            writer.stream("group_bits", self._group_bits)
            writer.stream("champions", self._champions)

    def _documents(self, run: Run) -> npt.NDArray[np.int32]:
        return self._parts[run.path]["documents"][run.bounds[0] : run.bounds[-1]]

    def _expand(self, run: Run) -> Iterator[_Postings]:
        """Yield the postings of a run by document; postings of services are repeated for each."""
        documents = self._documents(run)
        counts = self._parts[run.path]["counts"][run.bounds[0] : run.bounds[-1]]
        terms = np.repeat(run.terms.astype(np.int64), np.diff(run.bounds))
        weighted = self._weights[run.field] * counts.astype(np.float64)
        frequencies = weighted / self._norms[run.of_services][run.field].take(documents)
        if not run.of_services:
            yield _Postings(terms, documents.astype(np.int64), frequencies)
            return
        is_group = self._shares.take(documents) > 0
        for first in self._firsts:
            sizes = np.where(is_group, first.take(documents + 1) - first.take(documents), 0)
            stops = np.cumsum(sizes)
            ordinals = np.repeat(first.take(documents) - (stops - sizes), sizes)
            ordinals += np.arange(len(ordinals))
            yield _Postings(np.repeat(terms, sizes), ordinals, np.repeat(frequencies, sizes))

    def _sum_by_document(self, slices: Iterator[_Postings]) -> _Postings:
        """Return the postings of one term by document, with the sums of their frequencies.

        A document has a term once in a field, and frequencies are added in the order of fields.
        """
        sums = np.zeros(len(self._services))
        for each in slices:
            sums[each.ordinals] += each.frequencies
        ordinals = np.flatnonzero(sums)
        return _Postings(np.zeros(len(ordinals), np.int64), ordinals, sums[ordinals])

    def _sum_by_key(self, slices: Iterator[_Postings]) -> _Postings:
        """Return the postings by term and document, with the sums of their frequencies.

        The lowest bits of each key are the position of its posting, so that the sort is stable and
        the frequencies of a document are added in the order of fields.
        """
        terms, ordinals, frequencies = (np.concatenate(each) for each in zip(*slices, strict=True))
        position_bits = len(terms).bit_length()
        ordinal_bits = len(self._services).bit_length()
        keys = (terms << ordinal_bits | ordinals) << position_bits
        keys |= np.arange(len(keys))
        keys.sort()
        order = keys & ((1 << position_bits) - 1)
        keys >>= position_bits
        starts = is_first(keys)
        sums = np.bincount(np.cumsum(starts) - 1, frequencies[order]).astype(np.float64, copy=False)
        keys = keys[starts]
        return _Postings(keys >> ordinal_bits, keys & ((1 << ordinal_bits) - 1), sums)

    def _score(self, document_frequencies: Integers, postings: _Postings) -> npt.NDArray[np.uint16]:
        """Return the BM25F impact of each posting (Robertson and Zaragoza 2009, section 3.6).

        idf · f / (k1 + f) with idf = ln(1 + (N - df + 0.5) / (df + 0.5)), times 1 + bound · prior
        of the service, rounded, and 1 at least: an impact of 0 would be no match.
        """
        config, frequencies = self._config, postings.frequencies
        others = len(self._services) - document_frequencies
        idf = np.log(1 + (others + 0.5) / (document_frequencies + 0.5))
        scores = np.repeat(idf, document_frequencies) * frequencies
        scores /= config.saturation + frequencies
        priors = self._prior.take(postings.ordinals)
        scores *= 1 + config.prior_bound * np.clip(priors, -1, 1, out=priors)
        impacts = np.clip(np.rint(scores * config.impact_scale), 1, np.iinfo(np.uint16).max)
        return impacts.astype(np.uint16)

    def _add(
        self,
        document_frequencies: Integers,
        ordinals: Integers,
        impacts: npt.NDArray[np.uint16],
    ) -> None:
        """Add the postings of the next terms: lists of rare terms, columns of the others."""
        self._frequencies.append(document_frequencies)
        self._group_frequencies.append(self._count_groups(document_frequencies, ordinals))
        is_dense = document_frequencies > len(self._services) * self._config.dense_share
        rare = np.repeat(~is_dense, document_frequencies)
        self._postings.append((ordinals[rare] << IMPACT_BITS) | impacts[rare])
        stops = np.cumsum(document_frequencies)
        for term in np.flatnonzero(is_dense).tolist():
            own = slice(int(stops[term] - document_frequencies[term]), int(stops[term]))
            self._add_dense(ordinals[own], impacts[own])

    def _add_dense(self, ordinals: Integers, impacts: npt.NDArray[np.uint16]) -> None:
        _, blocks, size = self._impacts[0].shape
        column = np.zeros(blocks * size, np.uint16)
        column[ordinals] = impacts
        self._impacts.append(column.reshape(1, blocks, size))
        groups = np.zeros(len(self._penalties), np.bool_)
        groups[self._services.take(ordinals)] = True
        self._group_bits.append(pack(groups)[np.newaxis])
        champions = np.zeros((1, CHAMPIONS), np.int64)
        best = self._find_champions(ordinals, impacts)
        champions[0, : len(best)] = best
        self._champions.append(champions)

    def _count_groups(self, document_frequencies: Integers, ordinals: Integers) -> Integers:
        """Return how many services have each term, whose documents are given one after another."""
        services = max(len(self._penalties), 1)
        terms = np.repeat(np.arange(len(document_frequencies)), document_frequencies)
        keys = terms * services + self._services.take(ordinals)
        is_endpoint = ordinals < self._endpoints
        distinct, others = keys[is_endpoint], keys[~is_endpoint]
        distinct, others = distinct[is_first(distinct)], others[is_first(others)]
        if len(distinct) and len(others):
            others = others[~np.isin(others, distinct)]
        owners = np.concatenate((distinct, others)) // services
        return np.bincount(owners, minlength=len(document_frequencies))

    def _find_champions(self, ordinals: Integers, impacts: npt.NDArray[np.uint16]) -> Integers:
        """Return the best document of each of the best groups, given the documents of a term."""
        groups = self._services.take(ordinals)
        keys = ordinals - ((impacts.astype(np.int64) - self._penalties.take(groups)) << SUM_BITS)
        if len(self._penalties) < len(self._services):
            order = np.lexsort((keys, groups))
            keys = keys[order[is_first(groups[order])]]
        return first_keys(keys, CHAMPIONS) & ORDINAL_MASK


def _bits(impacts: npt.NDArray[np.uint16]) -> npt.NDArray[np.uint64]:
    """Return the documents of columns that have the term."""
    dense, blocks, _ = impacts.shape
    bits = np.packbits(impacts > 0, axis=2, bitorder="little")
    return bits.view(np.uint64).reshape(dense, blocks)
