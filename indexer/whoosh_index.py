"""The Whoosh index of the published services, which people ask in Whoosh's own query language.

The service never opens it: Whoosh pickles, and unpickling runs code.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from whoosh import index
from whoosh.analysis import Analyzer, Token
from whoosh.fields import ID, STORED, TEXT, Schema

from indexer.errors import IndexerError
from indexer.intake.fingerprint import hash_program
from indexer.processes.pool import wait_for
from service.arrays.texts import Records
from service.artifacts.publishing import STAGING, WHOOSH
from service.search.analysis import name_key, term_of, words_of
from service.snapshot.manifest import hash_file
from service.snapshot.publication import SNAPSHOTS

STATE = "STATE"  # a file with the snapshot, and with a hash of the other files and of the program
FIELDS = ("name", "description", "category")
"""The fields that are analysed; a word without a field is searched in all of them."""


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
        if not tokenize:
            yield Token(text=re.sub("[^*?]+", lambda part: name_key(part[0]), text))
            return
        token = Token(boosts=True)  # reused, as those of Whoosh's own analysers
        words = [word.text for word in words_of(text) if mode == "index" or not word.redundant]
        for token.text in map(_term_of, words):
            yield token


_term_of = lru_cache(maxsize=1 << 15)(term_of)
_decode, _encode = msgspec.json.Decoder(IndexedTexts).decode, msgspec.json.Encoder().encode
TEXT_FIELD = TEXT(analyzer=TermAnalyzer(), phrase=False)
SCHEMA = Schema(id=ID(unique=True, stored=True), hash=STORED, **dict.fromkeys(FIELDS, TEXT_FIELD))


def update_whoosh_index(
    artifacts: Path, snapshot_id: str, drafted: Future[str] | None = None
) -> list[str]:
    """Put the drafted index of a published snapshot in place, in `stage`; returns notes."""
    folder, draft = artifacts / WHOOSH, artifacts / STAGING / WHOOSH
    if drafted is None and _read_state(folder) == snapshot_id:
        return []
    snapshot = artifacts / SNAPSHOTS / snapshot_id
    try:
        fault = wait_for(drafted) if drafted else draft_whoosh_index(artifacts, snapshot)
        if not fault:
            (draft / STATE).write_text(f"{snapshot_id} {_hash(draft)}")
            with suppress(FileNotFoundError):
                folder.rename(draft.with_name("earlier whoosh"))
            draft.rename(folder)
    except (OSError, IndexerError) as error:
        fault = str(error)
    return [f"{folder}: the Whoosh index is not written: {fault}; build again"] if fault else []


def draft_whoosh_index(artifacts: Path, snapshot: Path) -> str:
    """Write an index in the staging folder, from a copy of a whole one; returns a fault, or ""."""
    draft = artifacts / STAGING / WHOOSH
    try:
        with suppress(OSError):
            shutil.copytree(artifacts / WHOOSH, draft)
        whoosh = index.open_dir(str(draft), schema=SCHEMA) if _read_state(draft) else None
        if whoosh is None or whoosh.doc_count_all() > 2 * whoosh.doc_count():
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(parents=True)
            whoosh = index.create_in(str(draft), SCHEMA)
        _update(whoosh, snapshot)
    except Exception as error:  # noqa: BLE001  # Whoosh raises any; the snapshot is published
        return str(error) or repr(error)
    return ""


def _update(whoosh: Any, snapshot: Path) -> None:
    """Add the services whose texts changed, and delete these as they were and those that went."""
    records = Records(snapshot)
    with whoosh.searcher() as searcher, whoosh.writer() as writer:
        known = {each["id"]: each["hash"] for each in searcher.reader().all_stored_fields()}
        for ordinal in range(len(records)):
            texts = _decode(records.view(ordinal))
            digest = sha256(_encode(texts)).digest()
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
        found = "has no whole Whoosh index of this release"
        if state:
            found = f"is behind: it has the snapshot {state}"
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
