"""Tantivy (Rust) over the same documents, in its usual configuration."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from tests.benchmarks.corpus import Query

Search = Callable[[Query], int]
"""Ranks the top PAGE of a query, and returns the total of its matches."""
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
