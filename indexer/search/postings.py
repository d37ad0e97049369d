"""Compiling the postings of the segments: each gets its BM25F impact."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from indexer.columns.ragged import bounds_of
from indexer.processes.pool import Pool, wait_for
from indexer.processes.resources import release_memory
from indexer.search.impacts import DENSE, RANGE, ScoredDocuments, compile_terms
from indexer.search.parts import Documents, Part
from indexer.search.query_expansion import begin_words, write_names, write_query_expansion
from indexer.search.runs import divide_terms, write_runs
from service.search.config import SEARCH_CONFIG, SearchConfig
from service.search.postings import CHAMPIONS, Header
from service.storage.container import open_arrays, write_arrays, writing_arrays
from service.storage.layouts import GROUPS, POSTINGS

RANGE_POSTINGS = 1 << 20
"""Postings of a range of terms that one call compiles, about."""


def compile_postings(
    parts: Iterable[Part],
    names: Sequence[str],
    prior: npt.NDArray[np.float64],
    documents: Documents,
    folder: Path,
    staging: Path,
    pool: Pool,
    config: SearchConfig = SEARCH_CONFIG,
) -> None:
    """Write the files of a `Searcher` and a `QueryParser`.

    names: of the services
    prior: float64[documents], -1 to 1
    staging: a folder that is made, for files that are not kept
    """
    folder.mkdir(parents=True, exist_ok=True)
    endpoints = int(documents.endpoints[-1])
    penalties = _size_penalties(documents, config)
    write_arrays(folder / "groups", GROUPS, {"penalties": penalties})
    runs, terms, path, words = write_runs(staging, parts, documents, prior, config)
    scored = ScoredDocuments(path, endpoints, penalties, config)
    tasks = [
        (
            staging / f"range {own.start}",
            [run.between(own.start, own.stop) for run in runs],
            len(own),
            scored,
        )
        for own in divide_terms(runs, len(terms), RANGE_POSTINGS, documents)
    ]
    compiled = [pool.submit(compile_terms, *task) for task in tasks]
    write_names(folder, names)
    begun = begin_words(folder, words, terms)
    for each in compiled:
        wait_for(each)
    document_frequencies, group_frequencies = _join_ranges(
        folder / "postings", [path for path, *_ in tasks], len(prior) * config.dense_share
    )
    release_memory()
    write_query_expansion(folder, begun, document_frequencies, group_frequencies, pool, config)
    postings = int(document_frequencies.sum(dtype=np.int64))
    header = Header(len(prior), endpoints, len(names), len(terms), postings, config)
    (folder / "header.json").write_bytes(msgspec.json.encode(header))


def _size_penalties(documents: Documents, config: SearchConfig) -> npt.NDArray[np.uint16]:
    """Return the penalty of each service, by which the sum of a document is lowered."""
    sizes = np.bincount(documents.services, minlength=len(documents.own))
    penalties = config.size_penalty * config.impact_scale * np.log(np.maximum(sizes, 1))
    return np.minimum(np.rint(penalties), np.iinfo(np.uint16).max).astype(np.uint16)


def _join_ranges(
    path: Path, ranges: Sequence[Path], most_sparse: float
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Write the postings of all ranges; return the frequencies of terms by document and service.

    A term of more than `most_sparse` documents is dense.
    """
    parts = [open_arrays(each, RANGE, cold=RANGE.arrays) for each in ranges]
    frequencies, group_frequencies = (
        np.concatenate([part[f"{name}_frequencies"] for part in parts])
        for name in ("document", "group")
    )
    is_dense = frequencies > most_sparse
    offsets = bounds_of(np.where(is_dense, 0, frequencies))
    champions = min(CHAMPIONS, int(group_frequencies[is_dense].max(initial=0)))
    with writing_arrays(path, POSTINGS) as writer:
        writer.write("offsets", offsets)
        writer.write("rows", np.where(is_dense, np.cumsum(is_dense) - 1, -1).astype(np.int32))
        for name in ("postings", *DENSE):
            own = (part[name] for part in parts)
            cut = (each[:, :champions] for each in own) if name == "champions" else own
            writer.stream(name, cut)
    return frequencies, group_frequencies
