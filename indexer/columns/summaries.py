"""Writing the summaries of services."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from indexer.columns.record_columns import RecordColumns
from indexer.record_store import write_record_store


def write_summaries(folder: Path, columns: RecordColumns, texts: Iterable[bytes]) -> None:
    """Write the services with empty `endpoints` and an `endpointCount`, for short answers.

    `texts` are their records in the same order.
    """
    write_record_store(folder, "summaries", _summaries(columns, texts))


def _summaries(columns: RecordColumns, texts: Iterable[bytes]) -> Iterator[bytes]:
    services = columns.services
    places = zip(*(services[name].tolist() for name in ("start", "stop", "endpoints")), strict=True)
    kept = columns.service_runs["summary"].texts()
    for text, summary, (start, stop, count) in zip(texts, kept, places, strict=True):
        yield summary or b'%b[]%b,"endpointCount":%d}' % (text[:start], text[stop:-1], count)
