"""Other search engines over the same documents, each with its usual configuration.

Each `open_` function returns a search that ranks the top 24 and returns the total of matches, or -1
for bm25s, which has no totals.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from whoosh.fields import FieldType
from whoosh.formats import Existence

from service.search.analysis import query_words, term_of, words_of
from tests.benchmarks.corpus import Document, Query

Search = Callable[[Query], int]
PAGE = 24
BOOSTS = "boosts.json"
PUNCTUATION = re.compile(r"[\W_]+")


def write_tantivy(
    documents: Iterable[dict[str, str]], boosts: dict[str, float], folder: Path
) -> None:
    """Index texts by field with Tantivy (Rust): English stemming, one segment."""
    import tantivy

    folder.mkdir()
    schema = tantivy.SchemaBuilder()
    for field in boosts:
        schema.add_text_field(field, tokenizer_name="en_stem", index_option="freq")
    index = tantivy.Index(schema.build(), path=str(folder))
    writer = index.writer(2_000_000_000, 1)
    for each in documents:
        writer.add_document(tantivy.Document(**each))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    if index.searcher().num_segments != 1:
        raise RuntimeError("Tantivy has written several segments; give it more memory")
    (folder / BOOSTS).write_bytes(msgspec.json.encode(boosts))


def open_tantivy(folder: Path) -> Search:
    """Open an index of `write_tantivy`; each search counts all matches exactly."""
    import tantivy

    boosts = msgspec.json.decode((folder / BOOSTS).read_bytes(), type=dict[str, float])
    index = tantivy.Index.open(str(folder))
    searcher = index.searcher()

    def search(query: Query) -> int:
        text = PUNCTUATION.sub(" ", query.words).lower()
        parsed = index.parse_query(text, list(boosts), field_boosts=boosts)
        if query.category:
            category = index.parse_query(query.category, ["category"])
            parsed = tantivy.Query.boolean_query(
                [
                    (tantivy.Occur.Must, parsed),
                    (tantivy.Occur.Must, tantivy.Query.const_score_query(category, 0.0)),
                ]
            )
        count: int = searcher.search(parsed, PAGE, count=True).count
        return count

    return search


def open_bm25s(documents: list[Document], _: Path) -> Search:
    """Open bm25s with Numba, over our terms of all three fields."""
    import bm25s
    import numpy as np

    corpus = [
        [term_of(word.text) for word in words_of(f"{each.name} {each.description} {each.category}")]
        for each in documents
    ]
    retriever = bm25s.BM25(backend="numba", method="lucene")
    retriever.index(corpus, show_progress=False)
    retriever.activate_numba_scorer()
    categories = np.array([each.category for each in documents])
    masks = {name: (categories == name).astype(np.float32) for name in set(categories.tolist())}

    def search(query: Query) -> int:
        terms = dict.fromkeys(term_of(word.text) for word in query_words(query.words))
        known_terms = [term for term in terms if term in retriever.vocab_dict]
        if known_terms:
            mask = masks[query.category] if query.category else None
            retriever.retrieve(
                [known_terms], k=PAGE, show_progress=False, n_threads=1, weight_mask=mask
            )
        return -1

    return search


def open_sqlite(documents: list[Document], folder: Path) -> Search:
    """Open SQLite FTS5 with its Porter stemmer; the total is a second query."""
    connection = sqlite3.connect(folder / "fts.db")
    connection.execute(
        "CREATE VIRTUAL TABLE texts "
        "USING fts5(name, description, category, tokenize='porter unicode61')"
    )
    rows = [(each.name, each.description, each.category) for each in documents]
    connection.executemany("INSERT INTO texts VALUES (?, ?, ?)", rows)
    connection.execute("INSERT INTO texts(texts) VALUES ('optimize')")
    connection.commit()
    ranking = "SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY bm25(texts, 2, 1, 1) LIMIT 24"
    counting = "SELECT count(*) FROM texts WHERE texts MATCH ?"

    def search(query: Query) -> int:
        match = " OR ".join(f'"{word.text}"' for word in query_words(query.words))
        if query.category:
            match = f'({match}) AND category : "{query.category}"'
        connection.execute(ranking, (match,)).fetchall()
        count: int = connection.execute(counting, (match,)).fetchone()[0]
        return count

    return search


class Terms(FieldType):  # type: ignore[misc]  # Whoosh is untyped
    """A field of our terms, which Whoosh pickles."""

    def index(self, value: str, **_: Any) -> Iterator[tuple[bytes, int, float, bytes]]:
        """Yield each term of a text with its frequency, its weight and no positions."""
        for term, count in Counter(term_of(word.text) for word in words_of(value)).items():
            yield term.encode(), count, float(count), b""


def open_whoosh(documents: list[Document], folder: Path) -> Search:
    """Open Whoosh's searcher with BM25F, over an index of our terms."""
    from whoosh import fields, index, query, scoring

    field_type = Terms(Existence(), None, scorable=True)
    schema = fields.Schema(name=field_type, description=field_type, category=field_type)
    writer = index.create_in(str(folder), schema).writer(limitmb=512)
    for each in documents:
        writer.add_document(name=each.name, description=each.description, category=each.category)
    writer.commit(optimize=True)
    searcher = index.open_dir(str(folder), readonly=True).searcher(weighting=scoring.BM25F())
    names = ("name", "description", "category")

    def search(request: Query) -> int:
        terms = dict.fromkeys(term_of(word.text) for word in query_words(request.words))
        any_term = query.Or([query.Term(field, term) for term in terms for field in names])
        category = query.Term("category", request.category.lower()) if request.category else None
        return len(searcher.search(any_term, limit=PAGE, filter=category))

    return search
