"""The Whoosh index of the published services, which people ask in Whoosh's own query language.

The service never opens it: Whoosh pickles, and unpickling runs code.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from whoosh import index
from whoosh.analysis import Analyzer, Token
from whoosh.fields import ID, STORED, TEXT, Schema
from whoosh.qparser import FieldsPlugin, MultifieldParser

from indexer.errors import IndexerError, Misuse
from indexer.intake.fingerprint import hash_program
from indexer.text import shorten
from service.arrays.texts import Records
from service.artifacts.publishing import WHOOSH
from service.search.analysis import name_key, term_of, words_of
from service.snapshot.manifest import hash_file
from service.snapshot.publication import SNAPSHOTS

STATE = "STATE"  # a file with the snapshot, and with a hash of the other files and of the program
FIELDS = ("name", "description", "category")
"""The fields that are analysed; a word without a field is searched in all of them."""
_INCOMPLETE = re.compile(r"(?:^|\()\s*(AND|OR)\b|\b(AND|OR|NOT)\s*(?:\)|$)|\b\w+:(?=[\s)]|$)")


class IndexedTexts(msgspec.Struct):
    """The indexed texts of a service."""

    id: str
    name: str
    description: str
    category: str = ""


class TermAnalyzer(Analyzer):  # type: ignore[misc]  # Whoosh is untyped
    """Cuts texts into terms as the service does, stop words included."""

    def __call__(self, text: str, mode: str, *, tokenize: bool = True, **_: Any) -> Iterator[Token]:
        """Yield the terms of a text; a pattern, not tokenised, is only folded."""
        for word in words_of(text) if tokenize else ():
            if mode == "index" or not word.redundant:
                yield Token(text=term_of(word.text), boosts=True)
        if not tokenize:
            yield Token(text=re.sub("[^*?]+", lambda part: name_key(part[0]), text))


TEXT_FIELD = TEXT(analyzer=TermAnalyzer(), phrase=False)
SCHEMA = Schema(id=ID(unique=True, stored=True), hash=STORED, **dict.fromkeys(FIELDS, TEXT_FIELD))


def update_whoosh_index(artifacts: Path, snapshot_id: str) -> list[str]:
    """Bring the index up to date with a published snapshot, under the lock; returns notes.

    The index is written anew if it is not whole, or has more deleted documents than others.
    """
    folder = artifacts / WHOOSH
    try:
        if (state := _read_state(folder)) == snapshot_id:
            return []
        whoosh = index.open_dir(str(folder), schema=SCHEMA) if state else None
        if whoosh is None or whoosh.doc_count_all() > 2 * whoosh.doc_count():
            if folder.is_symlink() or folder.is_file():
                folder.unlink()
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            whoosh = index.create_in(str(folder), SCHEMA)
        (folder / STATE).unlink(missing_ok=True)
        _update(whoosh, artifacts / SNAPSHOTS / snapshot_id)
        (folder / STATE).write_text(f"{snapshot_id} {_hash(folder)}")
    except Exception as error:  # noqa: BLE001  # Whoosh raises any; the snapshot is published
        return [f"{folder}: the Whoosh index is not written: {error}; build again"]
    return []


def _update(whoosh: Any, snapshot: Path) -> None:
    """Add the services whose texts changed, and delete these as they were and those that went."""
    records = Records(snapshot)
    with whoosh.searcher() as searcher, whoosh.writer() as writer:
        known = {each["id"]: each["hash"] for each in searcher.reader().all_stored_fields()}
        for ordinal in range(len(records)):
            texts = msgspec.json.decode(records.view(ordinal), type=IndexedTexts)
            digest = sha256(msgspec.json.encode(texts)).digest()
            if known.get(texts.id) == digest:
                del known[texts.id]
            else:
                writer.add_document(hash=digest, **msgspec.structs.asdict(texts))
        for service_id in known:
            writer.delete_by_term("id", service_id, searcher=searcher)
    del records  # whose files are mapped: an exception that Whoosh keeps holds this frame


def open_whoosh_index(artifacts: Path, snapshot_id: str) -> index.FileIndex:
    """Open the index to be read; raises IndexerError unless it is whole and of this snapshot."""
    folder = artifacts / WHOOSH
    if (state := _read_state(folder)) != snapshot_id:
        found = f"is behind: it has the snapshot {state}" if state else "has no whole Whoosh index"
        raise IndexerError(f"{folder} {found}; a build brings it up to date with {snapshot_id}")
    return index.open_dir(str(folder), readonly=True, schema=SCHEMA)


def _read_state(folder: Path) -> str:
    """Return the snapshot of the index, empty unless its files are those that we wrote."""
    with suppress(OSError, ValueError):
        snapshot_id, written = (folder / STATE).read_text().split()
        if written == _hash(folder):
            return snapshot_id
    return ""


def _hash(folder: Path) -> str:
    files = {path.name: hash_file(path).sha256 for path in folder.iterdir() if path.name != STATE}
    return sha256(repr((hash_program(), sorted(files.items()))).encode()).hexdigest()


def parse_query(text: str) -> Any:
    """Parse a query in the language of Whoosh; raises Misuse for what the index cannot answer."""
    name = f"{shorten(text)!r} is no query"
    if '"' in text:
        raise Misuse(f"{name}: the index has no phrases; write the words without double quotes")
    if text.count("(") != text.count(")") or _INCOMPLETE.search(text):
        raise Misuse(f"{name}: a parenthesis is missing, or a word beside AND, OR, NOT or a field")
    parser = MultifieldParser(FIELDS, SCHEMA)
    parser.replace_plugin(FieldsPlugin(remove_unknown=False))
    try:
        query = parser.parse(text)
        fields = {leaf.field() for leaf in query.leaves()}
    except Exception as error:  # the parsers of the distributions raise any where a text is odd
        raise Misuse(f"{name}: {error}") from error
    if unknown := fields - {None, "id", *FIELDS}:
        raise Misuse(f"{name}: no field {shorten(min(unknown))!r}; id, {', '.join(FIELDS)} are")
    return query
