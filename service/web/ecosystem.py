"""Payment statistics as the texts and bar charts that the templates show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

import msgspec

from service.schema.ecosystem import Bucket, Overview, Transaction
from service.snapshot.payments import Ecosystem

HEIGHT, TOP = 142, 10
"""Pixels of the plot area of a chart, and of the space above it."""
MAX_LABELS = 5  # below a chart; more would overlap on a telephone
GAP = 0.12  # of a column, on either side of its bar
CENT = 10_000  # millionths of a US dollar
ADDRESS_LENGTH = 14  # characters above which an address is abbreviated


class Bar(NamedTuple):
    """A bar within its column: `x` and widths in percent, `y` and height in pixels."""

    title: str
    label: str
    column: float
    column_width: float
    x: float
    width: float
    y: float
    height: float


class Chart(NamedTuple):
    """A bar chart. `scale` has the labels of its highest value and of half of it."""

    name: str
    summary: str
    scale: tuple[str, str]
    bars: list[Bar]


class Statistics(NamedTuple):
    """The statistics of a timeframe: totals, and labelled buckets of a `unit`, newest first."""

    totals: Overview
    unit: str
    buckets: list[tuple[str, Bucket]]
    charts: list[Chart]


_overview = msgspec.json.Decoder(Overview)
_buckets = msgspec.json.Decoder(list[Bucket])
_transactions = msgspec.json.Decoder(list[Transaction])


def statistics_of(tables: Ecosystem, days: int) -> Statistics:
    """Return the statistics of the last `days` days."""
    buckets = _buckets.decode(b"[%b]" % tables.stats(days))
    unit = "hour" if days == 1 else "day"
    labels = [_label(bucket, unit) for bucket in buckets]
    payments = [bucket.total_transactions for bucket in buckets]
    amounts = [bucket.total_amount for bucket in buckets]
    return Statistics(
        totals=_overview.decode(tables.overview(days)),
        unit=unit,
        buckets=[*zip(labels, buckets, strict=True)][::-1],
        charts=[
            _chart("Payments", unit, labels, payments, format_count),
            _chart("Amount", unit, labels, amounts, format_money),
        ]
        if buckets
        else [],
    )


def payments_of(tables: Ecosystem, page: int, limit: int) -> tuple[list[Transaction], bool]:
    """Return a page of payments, newest first, and whether another page follows."""
    items, has_next = tables.transactions(page, limit)
    return _transactions.decode(b"[%b]" % items), has_next


def format_count(count: float) -> str:
    """Format a count, or half of one on a scale."""
    return f"{count:,.1f}".removesuffix(".0")


def format_money(millionths: float) -> str:
    """Format millionths of a US dollar: to the cent, or below one cent to three digits."""
    dollars = millionths / 1e6
    if 0 < millionths < CENT:
        return f"${Decimal(f'{dollars:.3g}'):f}"
    return f"${dollars:,.2f}"


def _label(bucket: Bucket, unit: str) -> str:
    start = datetime.fromisoformat(bucket.bucket_start)
    return f"{start:%H:%M}" if unit == "hour" else f"{start:%b} {start.day}"


def _chart(
    name: str,
    unit: str,
    labels: Sequence[str],
    values: Sequence[int],
    format_value: Callable[[float], str],
) -> Chart:
    maximum = _round_up(max(values))
    step = 100 / len(values)
    interval = -(-len(values) // MAX_LABELS)
    titles = [
        f"{label}: {format_value(value)}" for label, value in zip(labels, values, strict=True)
    ]
    highest = titles[values.index(max(values))]
    return Chart(
        name=name,
        summary=f"{name} by {unit}, {labels[0]} to {labels[-1]}; most on {highest}",
        scale=(format_value(maximum), format_value(maximum / 2)),
        bars=[
            Bar(
                title=title,
                label="" if index % interval else labels[index],
                column=round(step * index, 3),
                column_width=round(step, 3),
                x=round(step * (index + GAP), 3),
                width=round(step * (1 - 2 * GAP), 3),
                y=round(TOP + HEIGHT * (1 - value / maximum), 3),
                height=round(HEIGHT * value / maximum, 3),
            )
            for index, (title, value) in enumerate(zip(titles, values, strict=True))
        ],
    )


def _round_up(value: int) -> int:
    """Round up to 1, 2, 4, 5 or 8 times a power of ten, whose halves are easy to read."""
    power = int("1".ljust(len(str(value)), "0"))
    return next(power * factor for factor in (1, 2, 4, 5, 8, 10) if power * factor >= value)


def format_units(amount: int, decimals: int) -> str:
    """Format an amount in base units, of which 10^decimals make one token, without rounding."""
    digits = str(amount).zfill(decimals + 1)
    point = len(digits) - decimals
    fraction = digits[point:].rstrip("0")
    return f"{digits[:point]}.{fraction}" if fraction else digits[:point]


def abbreviate(address: str) -> str:
    """Return the ends of a long address."""
    return f"{address[:6]}…{address[-4:]}" if len(address) > ADDRESS_LENGTH else address
