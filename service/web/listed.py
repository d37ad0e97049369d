"""The fates of a URL as the texts that the page shows."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec import UNSET

from service.schema.listings import ListingFate, ListingReport


class FateRow(NamedTuple):
    """A fate, or a note; `anchor` leads to the endpoint on the page of the service."""

    source: str
    fate: str
    reason: str
    path: str
    service: str
    anchor: str


class ReportTexts(NamedTuple):
    """Why a URL is listed or not."""

    url: str
    listed: bool
    fates: list[FateRow]
    notes: list[FateRow]
    advice: list[str]


_report = msgspec.json.Decoder(ListingReport)


def report_of(text: bytes, page_size: int) -> ReportTexts:
    """Return the texts of a stored `ListingReport`; pages of a service have so many endpoints."""
    report = _report.decode(text)
    return ReportTexts(
        report.url,
        report.listed,
        [_row(each, page_size) for each in report.fates],
        [_row(each, page_size) for each in report.notes],
        [each.text for each in report.advice],
    )


def _row(fate: ListingFate, page_size: int) -> FateRow:
    return FateRow(
        source=fate.source,
        fate=fate.fate,
        reason=fate.reason or "",
        path=fate.path or "",
        service=fate.service or "",
        anchor="" if fate.endpoint is UNSET else _anchor(fate.endpoint, page_size),
    )


def _anchor(endpoint: int, page_size: int) -> str:
    start = endpoint - endpoint % page_size
    return f"{f'?offset={start}' if start else ''}#endpoint-{endpoint}"
