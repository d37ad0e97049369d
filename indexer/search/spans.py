"""Indexing spans of the listing in worker processes: services with Whoosh, and their endpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from indexer.encoder.encoding import open_text_encoder
from indexer.progress import Advance, track
from indexer.record_store import read_record_store
from indexer.resources import whoosh_memory, worker_count
from indexer.search.endpoint_texts import EndpointAnalyser, EndpointText
from indexer.search.pool import start_workers
from indexer.search.whoosh_index import Part, index_part

SMALLEST_PART = 2500
"""Services that take longer to index than a worker takes to start."""
PROGRESS_STEP = 500
"""Services between two reports of progress."""


class Text(Struct):
    """The part of a service that is searched."""

    name: str
    description: str
    endpoints: list[EndpointText]
    category: str = ""


class Span(NamedTuple):
    """The postings of consecutive services, and of their endpoints, which are numbered from 0."""

    services: Part
    endpoints: Part


_text = msgspec.json.Decoder(Text)


@contextmanager
def indexing(
    folder: Path,
    services: Path,
    count: int,
    advance: Advance,
    *,
    encoder: Path | None = None,
    jobs: int,
    memory: int,
) -> Iterator[Callable[[], list[Span]]]:
    """Index the stored services in numbered folders while the body of a `with` statement runs.

    Yields a function that waits for the spans and returns them in order. The texts are encoded by
    the `Encoder` of the folder `encoder`, if there is one. At most `jobs` processes
    are started, and they use about half of `memory` (bytes). `advance` is called from other
    threads.
    """
    parts = min(worker_count(jobs, memory), max(1, count // SMALLEST_PART))
    bounds = [count * part // parts for part in range(parts + 1)]
    share = whoosh_memory(memory, parts)
    tasks = [
        (folder / str(part), services, range(*bounds[part : part + 2]), share, encoder)
        for part in range(parts)
    ]
    if parts == 1:
        yield lambda: [index_span(*tasks[0], advance)]
        return
    with start_workers(index_span, tasks, advance) as results:
        yield results


def index_span(
    folder: Path, services: Path, span: range, memory: int, encoder: Path | None, advance: Advance
) -> Span:
    """Index and encode a span of the stored services, with progress."""
    text_encoder = None if encoder is None else open_text_encoder(encoder)
    analyser = EndpointAnalyser(encoder)

    def documents() -> Iterator[tuple[str, str, str]]:
        records = read_record_store(services, "records", span)
        for text in map(_text.decode, track(records, advance, PROGRESS_STEP)):
            for endpoint in text.endpoints:
                analyser.add(endpoint)
            if text_encoder is not None:
                text_encoder.add(text.name, text.description)
            yield text.name, text.description, text.category

    part = index_part(folder, documents(), span.start, memory)
    vectors = None if text_encoder is None else text_encoder.encoded()
    return Span(part._replace(vectors=vectors), analyser.part())
