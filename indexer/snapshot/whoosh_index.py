"""The Whoosh index over the name, description and category of every service, in parts.

A part is an index of its own, of services that follow each other in the listing. Parts are written,
and read back, by processes of their own while the build does other things.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct
from whoosh import index

from indexer.errors import IndexerError
from indexer.progress import Advance, track
from indexer.snapshot.pool import Worker, results
from indexer.snapshot.readback import FieldPostings, read_back
from indexer.snapshot.record_store import read_record_store
from service.search.analysis import schema, term_of, words_of

WRITE_LOCK = "MAIN_WRITELOCK"
"""What a writer of Whoosh leaves behind: an empty file that only a second writer would look for."""

MEGABYTES_OF_POSTINGS = 256
"""How much Whoosh may hold in memory, for each part, before it sorts and spills to disk."""

STEPS = 500
"""Services after which a part says how far it is."""

SMALLEST_PART = 2500
"""Services for which a process of its own is worth the trouble."""


class UnorderedIndexError(IndexerError):
    """The document numbers of the index are not the ordinals of the services."""


class Text(Struct):
    """What is searched of a service."""

    name: str
    description: str
    category: str = ""


class Part(NamedTuple):
    """What was indexed of the services from the ordinal `first` on.

    That is its postings by field, and a vocabulary: every word as written (folded), and the term
    that it is indexed as.
    """

    first: int
    fields: dict[str, FieldPostings]
    vocabulary: dict[str, str]


_text = msgspec.json.Decoder(Text)


@contextmanager
def indexing(
    folder: Path, services: Path, count: int, workers: Sequence[Worker], advance: Advance
) -> Iterator[list[Part]]:
    """Index the stored services in numbered folders while the body runs; its end waits for that.

    A part is the work of a worker for `index_span`, where there are any. What is yielded is empty
    until then, and holds the parts in order afterwards.
    """
    at_work = workers[: count // SMALLEST_PART]
    number = max(1, len(at_work))
    bounds = [count * each // number for each in range(number + 1)]
    tasks = [
        (folder / str(each), services, range(*bounds[each : each + 2])) for each in range(number)
    ]
    parts: list[Part] = []
    for worker, task in zip(at_work, tasks, strict=False):
        worker.give(*task)
    yield parts
    parts += results(at_work, advance) or [index_span(*tasks[0], advance)]


def index_span(folder: Path, services: Path, span: range, advance: Advance) -> Part:
    """Index a span of the stored services as one part; says now and then how far it is."""
    records = track(read_record_store(services, "records", span), advance, STEPS)
    texts = map(_text.decode, records)
    documents = ((text.name, text.description, text.category) for text in texts)
    return index_part(folder, documents, span.start)


def index_part(folder: Path, documents: Iterable[tuple[str, str, str]], first: int = 0) -> Part:
    """Index `(name, description, category)` in listing order, the first with this ordinal."""
    folder.mkdir(parents=True, exist_ok=True)
    writer = index.create_in(str(folder), schema()).writer(limitmb=MEGABYTES_OF_POSTINGS)
    pieces: set[str] = set()
    ordinal = first
    try:
        for name, description, category in documents:
            pieces.update(name.split(), description.split(), category.split())
            writer.add_document(
                name=name, description=description, category=category, ordinal=ordinal
            )
            ordinal += 1
    except BaseException:
        writer.cancel()
        raise
    writer.commit(optimize=True)
    (folder / WRITE_LOCK).unlink(missing_ok=True)
    check_order(folder, range(first, ordinal))
    vocabulary = {word.text: term_of(word.text) for piece in pieces for word in words_of(piece)}
    return Part(first, read_back(folder), vocabulary)


def check_order(folder: Path, span: range) -> None:
    """Raise unless the index is one segment whose documents are in the order of the ordinals."""
    reader = index.open_dir(str(folder), readonly=True).reader()
    try:
        if not reader.is_atomic():
            raise UnorderedIndexError(f"the index in {folder} has several segments")
        if reader.doc_count_all() != len(span):
            raise UnorderedIndexError(
                f"the index in {folder} has {reader.doc_count_all()} documents, not {len(span)}"
            )
        for ordinal, stored in zip(span, reader.all_stored_fields(), strict=True):
            if stored["ordinal"] != ordinal:
                raise UnorderedIndexError(
                    f"service {ordinal} stands for {stored['ordinal']} in the index in {folder}"
                )
    finally:
        reader.close()
