"""The layouts of a snapshot's files, in one table, which readers, writers and docs/format.md share.

Generic layouts come first, then those of one file, in the order of FILES.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import NamedTuple

from service.storage.container import Array, Layout

STRING_TABLE = Layout(
    "Distinct strings in the order of their UTF-8 bytes.",
    utf8=Array("|u1", "bytes", "the strings end to end"),
    offsets=Array("<i8", "strings+1", "the byte at which each string begins, and the end"),
    heads=Array("<u8", "strings", "the first 8 bytes of each string, which are compared first"),
)
HASH_TABLE = Layout(
    "A static hash table; the bucket of a hash is its highest bits.",
    starts=Array("<i4", "buckets+1", "the first value of each bucket, and the end"),
    values=Array("<i4", "values", "the values of the buckets"),
    tags=Array("|u1", "values", "the lowest 8 bits of the hash of each value"),
)
RECORD_STORE = Layout(
    "JSON texts by ordinal.",
    texts=Array("|u1", "bytes", "the texts, joined by commas"),
    offsets=Array("<i8", "texts+1", "the byte at which each text begins, and one more would"),
)

RECORDS = Layout(
    "The places of the services in `records.json`.",
    offsets=Array("<i8", "services+1", "the byte at which each service begins, and one more would"),
    tags=Array("<u8", "services", "the first 64 bits of the hash of each service"),
)
POSTINGS = Layout(
    "An impact list for each term.",
    offsets=Array("<i8", "terms+1", "the first posting of each term, and the end"),
    rows=Array("<i4", "terms", "the row of a term in the dense arrays, or -1"),
    postings=Array("<i8", "postings", "`document << 24 | impact`, of all terms but the dense ones"),
    impacts=Array("<u2", "dense,blocks,64", "the impact of each document, 0 without the term"),
    maxima=Array("<i4", "dense,blocks", "the largest impact of each block"),
    bits=Array("<u8", "dense,blocks", "the documents that have the term"),
    group_bits=Array("<u8", "dense,group_blocks", "the groups that have the term"),
    champions=Array(
        "<i8", "dense,champions", "the best documents of the best groups, best first, then 0"
    ),
)
LEXICON = Layout(
    "Columns of the terms and the words, and the names of services.",
    document_frequencies=Array("<i4", "terms", "how many documents have each term"),
    group_frequencies=Array("<i4", "terms", "how many services have each term"),
    word_terms=Array("<i4", "words", "the term of each word"),
    corrections=Array("<i4", "words", "the term that a rare word probably misspells, or -1"),
    name_hashes=Array("<u8", "names", "the hashes of the folded names of services, ascending"),
    named=Array("<i4", "names", "the service of each name"),
)
GROUPS = Layout(
    "The groups of documents: those of each service.",
    penalties=Array("<u2", "services", "the size penalty of each service"),
)
ENCODER = Layout(
    "A static encoder.",
    pieces=Array("|u1", "bytes", "the word pieces, one a line"),
    rows=Array("|i1", "pieces,dimensions", "the vector of each word piece"),
    scales=Array("<i2", "pieces", "the factor of each vector"),
)
VECTORS = Layout(
    "The vectors of the documents, in cells of similar ones.",
    rows=Array("|i1", "documents,dimensions", "the vectors, in order of the cells"),
    inverse_lengths=Array("<f4", "documents", "the inverse of the length of each vector, or 0"),
    documents=Array("<i4", "documents", "the document of each row"),
    positions=Array("<i4", "documents", "the row of each document"),
    bounds=Array("<i8", "cells+1", "the first row of each cell, and the end of the last"),
    centroids=Array("|i1", "cells,dimensions", "the centroid of each cell"),
)


class Entry(NamedTuple):
    """A file of a snapshot, or several whose names match a pattern.

    layout: None for a file that is no container
    """

    text: str
    layout: Layout | None = None


FILES = MappingProxyType(
    {
        "manifest.json": Entry("format, id, times, counts, sources, and the hash of every file"),
        "decisions.json": Entry("decisions of builds that later builds keep to"),
        "records.json": Entry("the services in listing order, joined by commas"),
        "records.arrays": Entry("the place and the hash of each service", RECORDS),
        "summaries.arrays": Entry("the services with empty `endpoints`", RECORD_STORE),
        "ids.arrays": Entry("the ids of the services", RECORD_STORE),
        "id_hashes.arrays": Entry("from ids to services", HASH_TABLE),
        "postings/header.json": Entry("counts, and the parameters of the search"),
        "postings/postings.arrays": Entry("the postings, unless a cluster has them", POSTINGS),
        "postings/groups.arrays": Entry("the groups of documents", GROUPS),
        "postings/lexicon.arrays": Entry("the columns of terms and words", LEXICON),
        "postings/terms.arrays": Entry("the terms of the index", STRING_TABLE),
        "postings/words.arrays": Entry("the folded words of the texts", STRING_TABLE),
        "postings/one_deletion.arrays": Entry("from words without a letter to words", HASH_TABLE),
        "postings/two_deletions.arrays": Entry("from words without two letters", HASH_TABLE),
        "encoder.arrays": Entry("the encoder of queries, with vectors only", ENCODER),
        "vectors.arrays": Entry("the vectors, unless the build has none", VECTORS),
    }
)
"""The files by the patterns of their paths."""
