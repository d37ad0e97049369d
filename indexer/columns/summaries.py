"""Writing the summaries of services."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from indexer.columns.record_columns import RecordColumns
from service.storage.container import writing_arrays
from service.storage.texts import Records, write_texts


def write_summaries(folder: Path, columns: RecordColumns) -> None:
    """Write the stored services with empty `endpoints` and an `endpointCount`."""
    with writing_arrays(folder / "summaries.arrays") as writer:
        write_texts(writer, "summaries", _summaries(columns, Records(folder)))


def _summaries(columns: RecordColumns, records: Records) -> Iterator[bytes]:
    services = columns.services
    places = zip(*(services[name].tolist() for name in ("start", "stop", "endpoints")), strict=True)
    kept = columns.service_runs["summary"].texts()
    for ordinal, (summary, (start, stop, count)) in enumerate(zip(kept, places, strict=True)):
        text = records.text(ordinal)
        yield summary or b'%b[]%b,"endpointCount":%d}' % (text[:start], text[stop:-1], count)
