"""Other index writers over the same texts.

Run as `python -m tests.benchmarks.indexing.writers NAME COUNT`. Prints the seconds of writing,
without those of generating the texts.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.corpus import Document, make_documents


def write_whoosh(documents: list[Document], folder: Path) -> None:
    """Write with Whoosh as in its documentation: one process, its default analyser, one segment."""
    from whoosh import fields, index

    text = fields.TEXT()
    schema = fields.Schema(name=text, description=text, category=text, number=fields.STORED)
    writer = index.create_in(str(folder), schema).writer()
    for number, each in enumerate(documents):
        writer.add_document(
            name=each.name, description=each.description, category=each.category, number=number
        )
    writer.commit(optimize=True)


def write_tantivy(documents: list[Document], folder: Path) -> None:
    """Write with Tantivy (Rust), with a thread for each core."""
    import tantivy

    schema = tantivy.SchemaBuilder()
    for field in ("name", "description", "category"):
        schema.add_text_field(field, tokenizer_name="en_stem", index_option="freq")
    index = tantivy.Index(schema.build(), path=str(folder))
    writer = index.writer(500_000_000)
    for each in documents:
        writer.add_document(
            tantivy.Document(name=each.name, description=each.description, category=each.category)
        )
    writer.commit()
    writer.wait_merging_threads()


WRITERS: dict[str, Callable[[list[Document], Path], None]] = {
    "Whoosh": write_whoosh,
    "Tantivy": write_tantivy,
}


def main() -> None:
    """Write an index and print the seconds."""
    _, name, count = sys.argv
    documents = make_documents(int(count))
    with tempfile.TemporaryDirectory(prefix="ratecard-") as folder:
        started = time.perf_counter()
        WRITERS[name](documents, Path(folder))
        print(time.perf_counter() - started)


if __name__ == "__main__":
    main()
