"""Relevance: nDCG and recall of the ranking of a corpus, for judged queries."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Annotated, TypeVar
from urllib.parse import quote

import msgspec
import numpy as np
from msgspec import Meta, Raw, Struct, field

from indexer.build import build_snapshot
from indexer.catalogue_file import name_source
from indexer.errors import InvalidRecord, SourceError
from indexer.index.fit import LEAST_QUESTIONS, LEAST_WORDS
from indexer.intake.lists import read_records
from indexer.options import STATIC_RANKING, BuildOptions, RankingOptions
from indexer.text import decode_or_invalid
from service.schema.values import NULL
from service.snapshot.snapshot import Snapshot, open_snapshot

NDCG_DEPTH = 10
RECALL_DEPTH = 24
RESAMPLES = 2000
SPLITS = 2
NEUTRAL_HOST = "api.example"
"""Host of the URLs of endpoints of documents without a domain, the same for all."""
SAFE = "/:{}"
"""Characters of a path that are not escaped: slashes, and those of placeholders."""

T = TypeVar("T")


class JudgedParameter(Struct):
    """The part of a parameter that is searched."""

    name: str
    description: str = ""


class JudgedEndpoint(Struct, rename="camel"):
    """The part of an endpoint that is searched; an endpoint without a URL has a path."""

    url: str = ""
    path: str = ""
    method: str = ""
    description: str = ""
    parameters: list[JudgedParameter] = []
    tags: list[str] = []
    output_schema: Raw = NULL

    def __post_init__(self) -> None:
        if bool(self.url) == bool(self.path):
            raise ValueError("Object needs either `url` or `path`")


class CorpusDocument(Struct):
    """A document of a corpus, which is a service."""

    id: str
    name: str
    description: str = ""
    category: str = ""
    domain: str = ""
    endpoints: list[JudgedEndpoint] = []


class JudgedQuery(Struct):
    """A query, and the grade of each document that is relevant to it."""

    query: str
    relevant: dict[str, Annotated[float, Meta(ge=0, le=100)]]


class Judgement(Struct):
    """The measures of a query, the ids that were returned, and the grades of the relevant ids."""

    query: str
    ndcg: float = field(name="ndcg@10")
    recall: float = field(name="recall@24")
    returned: list[str]
    wanted: dict[str, float]


_document = msgspec.json.Decoder(CorpusDocument)
_query = msgspec.json.Decoder(JudgedQuery)


def evaluate(
    corpus: str,
    queries: str,
    ranking: RankingOptions = STATIC_RANKING,
) -> list[Judgement]:
    """Judge each query of a file against a snapshot built of a corpus, as a request searches it.

    Documents are services: a service is judged, whichever of its endpoints match. Queries without a
    relevant document are left out. Raises SourceError for a line that is no document or query, for
    a duplicate id, for a relevant id of no document, and where no query is left.
    """
    documents = read_corpus(corpus)
    asked = read_queries(queries, documents)
    with build_corpus(documents, ranking) as snapshot:
        return judge(snapshot, documents, asked)


def judge(
    snapshot: Snapshot, documents: list[CorpusDocument], asked: list[JudgedQuery]
) -> list[Judgement]:
    """Judge each query against the snapshot of these documents."""
    return [
        _judge(judged.query, returned, judged.relevant)
        for judged, returned, _ in _search(snapshot, documents, asked)
    ]


def evaluate_warnings(
    corpus: str, queries: str, ranking: RankingOptions = STATIC_RANKING
) -> dict[str, float]:
    """Judge the warnings of snapshots that lack half of a corpus: each half of two random splits.

    A query is answerable if all its relevant documents are there, and unanswerable if none is;
    others are left out. Raises SourceError as `evaluate` does, where a half has too few
    descriptions for a threshold, and where a kind has no query.
    """
    documents, rng = read_corpus(corpus), np.random.default_rng(0)
    asked = read_queries(queries, documents)
    rows = list[tuple[bool, bool, float]]()
    splits = (np.array_split(rng.permutation(len(documents)), 2) for _ in range(SPLITS))
    for half in chain.from_iterable(splits):
        kept = [documents[n] for n in np.sort(half).tolist()]
        ids = {each.id for each in kept}
        with build_corpus(kept, ranking) as snapshot:
            if snapshot.manifest.threshold is None:
                raise SourceError(
                    f"{corpus}: half of it has no `fit`, which needs {LEAST_QUESTIONS} "
                    f"descriptions of at least {LEAST_WORDS} words; give more documents"
                )
            counted = [each for each in asked if len({name in ids for name in each.relevant}) == 1]
            for judged, returned, fit in _search(snapshot, kept, counted):
                there = ids & judged.relevant.keys()
                is_right = not there.isdisjoint(returned[:1])
                rows.append((bool(there), is_right, 1.0 if fit is None else fit))
    answerable, right, fits = np.array(rows, np.float64).reshape(-1, 3).T
    high, low, right = fits[answerable == 1], fits[answerable == 0], fits[right == 1]
    if not len(right) or not len(low):
        raise SourceError(
            f"{queries}: half of {corpus} answers no query rightly, or lacks the answer to none; "
            "give more of both"
        )
    auroc = (high[:, np.newaxis] > low).mean() + (high[:, np.newaxis] == low).mean() / 2
    return {
        "answerable": len(high),
        "unanswerable": len(low),
        "auroc": float(auroc),
        "falseWarnings": float((right < 1).mean()),
        "warned": float((low < 1).mean()),
    }


def discounted_gain(grades: list[float]) -> float:
    """Return the DCG of grades in the order of the results, with the gain 2^grade - 1."""
    return math.fsum((2**grade - 1) / math.log2(rank + 1) for rank, grade in enumerate(grades, 1))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the mean (Efron, 1979), the same in every run."""
    rng = np.random.default_rng(0)
    sample = np.asarray(values)
    means = [sample[rng.integers(0, len(sample), len(sample))].mean() for _ in range(RESAMPLES)]
    low, high = np.quantile(means, (0.025, 0.975)).tolist()
    return low, high


def read_corpus(corpus: str) -> list[CorpusDocument]:
    """Return the documents of a file; raises SourceError as `evaluate` does."""
    documents = [document for _, document in _decode_lines(corpus, _document)]
    counts = Counter(document.id for document in documents)
    if repeated := [name for name, count in counts.items() if count > 1]:
        raise SourceError(
            f"{corpus}: several documents have the id {repeated[0]!r}; give each its own"
        )
    return documents


def read_queries(queries: str, documents: list[CorpusDocument]) -> list[JudgedQuery]:
    """Return the queries to which documents are relevant, with those alone; raises SourceError."""
    ids, asked = {document.id for document in documents}, list[JudgedQuery]()
    for place, judged in _decode_lines(queries, _query):
        judged.relevant = {name: grade for name, grade in judged.relevant.items() if grade > 0}
        if unknown := judged.relevant.keys() - ids:
            raise SourceError(f"{place}: the corpus has no {min(unknown)!r}; give ids of documents")
        asked += [judged] if judged.relevant else []
    if not asked:
        raise SourceError(f"{queries}: has no query to which a document is relevant")
    return asked


@contextmanager
def build_corpus(documents: list[CorpusDocument], ranking: RankingOptions) -> Iterator[Snapshot]:
    """Build documents in a temporary folder; yields the snapshot, whose ids are their positions."""
    with tempfile.TemporaryDirectory(prefix="ratecard-") as folder:
        source, artifacts = Path(folder, "corpus.jsonl"), Path(folder, "artifacts")
        source.write_bytes(b"\n".join(_record(n, each) for n, each in enumerate(documents)))
        sources = (name_source(str(source)),)
        build_snapshot(
            BuildOptions(
                sources=sources,
                out=artifacts,
                max_rejects=Fraction(0),
                ranking=ranking,
                downloads=False,
                whoosh=False,
            )
        )
        yield open_snapshot(artifacts)


def _search(
    snapshot: Snapshot, documents: list[CorpusDocument], asked: list[JudgedQuery]
) -> Iterator[tuple[JudgedQuery, list[str], float | None]]:
    """Yield each query, the ids that are returned, and their fit."""
    for judged in asked:
        hits = snapshot.search(judged.query, limit=RECALL_DEPTH)
        yield judged, [documents[int(service_id)].id for service_id in hits.ids], hits.fit


def _record(number: int, document: CorpusDocument) -> bytes:
    """Return a service whose id is the zero-padded number: ties keep the order of the corpus."""
    record = {
        "id": f"{number:012}",
        "name": document.name or document.id,
        "description": document.description,
        "category": document.category,
        "endpoints": [_endpoint(endpoint, document.domain) for endpoint in document.endpoints],
    }
    return msgspec.json.encode(record | ({"domain": document.domain} if document.domain else {}))


def _endpoint(endpoint: JudgedEndpoint, domain: str) -> dict[str, object]:
    path = quote(endpoint.path.removeprefix("/"), safe=SAFE)
    return {
        "url": endpoint.url or f"https://{domain or NEUTRAL_HOST}/{path}",
        "method": endpoint.method,
        "description": endpoint.description,
        "pricing": {"amount": "", "currency": ""},
        "parameters": [
            {"group": "query", "type": "string", **msgspec.structs.asdict(parameter)}
            for parameter in endpoint.parameters
        ],
        "tags": endpoint.tags,
        "outputSchema": endpoint.output_schema,
    }


def _judge(query: str, returned: list[str], wanted: dict[str, float]) -> Judgement:
    """Return the measures of a query; DCG (Burges et al. 2005) has the gain 2^grade - 1."""
    gain = discounted_gain([wanted.get(name, 0) for name in returned[:NDCG_DEPTH]])
    ideal = discounted_gain(sorted(wanted.values(), reverse=True)[:NDCG_DEPTH])
    recall = sum(name in wanted for name in returned) / len(wanted)
    return Judgement(query, gain / ideal, recall, returned, wanted)


def _decode_lines(name: str, decoder: msgspec.json.Decoder[T]) -> Iterator[tuple[str, T]]:
    """Yield the place and the value of each line."""
    for record in read_records(name, is_lines=True):
        place = f"{name}:{record.position.removeprefix('line ')}"
        try:
            yield place, decode_or_invalid(decoder, record.text)
        except InvalidRecord as error:
            reason = record.fault.reason if record.fault else error
            raise SourceError(f"{place}: {reason}") from error
