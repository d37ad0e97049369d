"""The Whoosh index over the name, description and category of every service."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct
from whoosh import index

from indexer.errors import IndexerError
from service.analysis import schema, term_of, words_of
from service.store import Store

VOCABULARY = "vocabulary.json"
"""Beside the index: every word as written (folded), and the term that it is indexed as."""

WRITE_LOCK = "MAIN_WRITELOCK"
"""What a writer of Whoosh leaves behind: an empty file that only a second writer would look for."""

MEGABYTES_OF_POSTINGS = 512
"""How much Whoosh may hold in memory before it sorts and spills to disk."""


class UnorderedIndexError(IndexerError):
    """The document numbers of the index are not the ordinals of the services."""


class Text(Struct):
    """What is searched of a service."""

    name: str
    description: str
    category: str = ""


_text = msgspec.json.Decoder(Text)


def read_texts(services: Store) -> Iterator[tuple[str, str, str]]:
    """`(name, description, category)` of the stored services, in listing order."""
    for ordinal in range(len(services)):
        text = _text.decode(services.text(ordinal))
        yield text.name, text.description, text.category


def write_text_index(folder: Path, documents: Iterable[tuple[str, str, str]]) -> int:
    """Index `(name, description, category)` in listing order; return how many there were."""
    folder.mkdir(parents=True, exist_ok=True)
    writer = index.create_in(str(folder), schema()).writer(limitmb=MEGABYTES_OF_POSTINGS)
    pieces: set[str] = set()
    count = 0
    try:
        for name, description, category in documents:
            pieces.update(name.split(), description.split(), category.split())
            writer.add_document(
                name=name, description=description, category=category, ordinal=count
            )
            count += 1
    except BaseException:
        writer.cancel()
        raise
    writer.commit(optimize=True)
    (folder / WRITE_LOCK).unlink(missing_ok=True)
    check_order(folder, count)
    vocabulary = {word.text: term_of(word.text) for piece in pieces for word in words_of(piece)}
    (folder / VOCABULARY).write_bytes(msgspec.json.encode(vocabulary, order="deterministic"))
    return count


def read_vocabulary(folder: Path) -> dict[str, str]:
    """What `write_text_index` noted: word as written → term."""
    return msgspec.json.decode((folder / VOCABULARY).read_bytes(), type=dict[str, str])


def check_order(folder: Path, count: int) -> None:
    """Raise unless the index is one segment whose documents are numbered as the ordinals are."""
    reader = index.open_dir(str(folder), readonly=True).reader()
    try:
        if not reader.is_atomic():
            raise UnorderedIndexError(f"the index in {folder} has several segments")
        if reader.doc_count_all() != count:
            raise UnorderedIndexError(
                f"the index in {folder} has {reader.doc_count_all()} documents, not {count}"
            )
        for number, stored in enumerate(reader.all_stored_fields()):
            if stored["ordinal"] != number:
                raise UnorderedIndexError(
                    f"document {number} of the index in {folder} is service {stored['ordinal']}"
                )
    finally:
        reader.close()
