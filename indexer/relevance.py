"""Relevance: how well search ranks a corpus for judged queries."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import Struct, field

from indexer.errors import SourceError
from indexer.sources.records import read_records
from service.snapshot.snapshot import Snapshot

GAINED = 10
RECALLED = 24


class Document(Struct):
    """One document of a corpus."""

    id: str
    name: str
    description: str = ""
    category: str = ""


class JudgedQuery(Struct):
    """A query, and the grade of each document that is relevant to it."""

    query: str
    relevant: dict[str, float]


class Judgement(Struct):
    """How one query fared: `ndcg` over the first 10, `recall` over the first 24."""

    query: str
    ndcg: float = field(name="ndcg@10")
    recall: float = field(name="recall@24")
    returned: list[str]
    wanted: dict[str, float]


_document = msgspec.json.Decoder(Document)
_query = msgspec.json.Decoder(JudgedQuery)


def evaluate(
    corpus: str, queries: str, build: Callable[[Iterator[bytes]], Snapshot]
) -> list[Judgement]:
    """Judge each query of a file by what a snapshot of the corpus answers, as to a request.

    `build` makes the snapshot of these records. Raises SourceError for a line that is no document
    or query. A query to which nothing is relevant says nothing and is left out.
    """
    documents = list(_read(corpus, _document))
    repeated = [name for name, count in Counter(d.id for d in documents).items() if count > 1]
    if repeated:
        raise SourceError(
            f"{corpus}: several documents have the id {repeated[0]!r}; give each its own"
        )
    snapshot = build(_record(number, document) for number, document in enumerate(documents))
    found = {_id(number): document.id for number, document in enumerate(documents)}
    judgements = []
    for judged in _read(queries, _query):
        wanted = {name: grade for name, grade in judged.relevant.items() if grade > 0}
        if wanted:
            hits = snapshot.search(judged.query, limit=RECALLED)
            returned = [found[service_id] for service_id in hits.ids]
            judgements.append(_judge(judged.query, returned, wanted))
    if not judgements:
        raise SourceError(f"{queries}: has no query to which a document is relevant")
    return judgements


def mean(values: list[float]) -> float:
    """The arithmetic mean."""
    return math.fsum(values) / len(values)


def _judge(query: str, returned: list[str], wanted: dict[str, float]) -> Judgement:
    """Gain is 2^grade - 1, discounted by log2(rank + 1), and divided by that of the best order."""
    gained = _discounted([wanted.get(name, 0) for name in returned[:GAINED]])
    best = _discounted(sorted(wanted.values(), reverse=True)[:GAINED])
    recall = sum(name in wanted for name in returned) / len(wanted)
    return Judgement(query, gained / best, recall, returned, wanted)


def _discounted(grades: list[float]) -> float:
    return math.fsum((2**grade - 1) / math.log2(rank + 1) for rank, grade in enumerate(grades, 1))


def _record(number: int, document: Document) -> bytes:
    return msgspec.json.encode(
        {
            "id": _id(number),
            "name": document.name or document.id,
            "description": document.description,
            "category": document.category,
            "endpoints": [],
        }
    )


def _id(number: int) -> str:
    """An id that is fit for a URL, and ties in the order of the corpus."""
    return f"{number:012}"


def _read(name: str, decoder: msgspec.json.Decoder[Any]) -> Iterator[Any]:
    for record in read_records(name):
        try:
            yield decoder.decode(record.text)
        except msgspec.MsgspecError as error:
            line = record.position.removeprefix("line ")
            raise SourceError(f"{name}:{line}: {error}") from error
