"""Payment statistics and demand as the texts and bar charts that the templates show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import numpy as np

from service.networks import network_label
from service.schema.demand import Demand, PopularService
from service.schema.ecosystem import Bucket, Overview, Transaction
from service.snapshot import Snapshot
from service.snapshot.payments import Ecosystem
from service.web.card import quantity

HEIGHT, TOP = 142, 10
"""Pixels of the plot area of a chart, and of the space above it."""
MAX_SHARES = 8  # of a facet
PRICE_STEPS = (0.001, 0.01, 0.1, 1.0)
PRICE_LABELS = ("below 0.001", "from 0.001", "from 0.01", "from 0.1", "from 1")
MAX_LABELS = 5  # below a chart; more would overlap on a telephone
GAP = 0.12  # of a column, on either side of its bar
CENT = 10_000  # millionths of a US dollar
ADDRESS_LENGTH = 14  # characters above which an address is abbreviated


_overview = msgspec.json.Decoder(Overview)
_buckets = msgspec.json.Decoder(list[Bucket])
_transactions = msgspec.json.Decoder(list[Transaction])
_demand = msgspec.json.Decoder(Demand)
_popular = msgspec.json.Decoder(list[PopularService])


def statistics_of(tables: Ecosystem, days: int) -> dict[str, Any]:
    """Return the totals of the last `days` days, their buckets, newest first, and two charts."""
    buckets = _buckets.decode(b"[%b]" % tables.stats(days))
    unit = "hour" if days == 1 else "day"
    labels = [_label(bucket, unit) for bucket in buckets]
    payments = [bucket.total_transactions for bucket in buckets]
    amounts = [bucket.total_amount for bucket in buckets]
    columns = (("Payments", payments, format_count), ("Amount", amounts, format_money))
    return {
        "totals": _overview.decode(tables.overview(days)),
        "unit": unit,
        "buckets": [*zip(labels, buckets, strict=True)][::-1],
        "charts": [_chart(unit, labels, *column) for column in columns if buckets],
    }


def payments_of(tables: Ecosystem, page: int, limit: int) -> list[Transaction]:
    """Return a page of payments, newest first."""
    items, _ = tables.transactions(page, limit)
    return _transactions.decode(b"[%b]" % items)


class ShownDemand(NamedTuple):
    """The payments for a service in 30 days: facts with their labels, and a chart by day."""

    used: str
    facts: list[tuple[str, str]]
    chart: dict[str, Any] | None


def demand_shown(tables: Ecosystem, service: int) -> ShownDemand | None:
    """Return the payments for a service, None without any."""
    demand = _demand.decode(tables.demand(service))
    if not demand.payments and not demand.self_payments:
        return None
    rest = demand.without_top_payer
    returning = f"{format_count(demand.returning_payers)} came again"
    without = f"{quantity(rest.calls, 'payment')}, {format_money(rest.volume)}"
    facts = [
        ("Paid", format_money(demand.volume)),
        ("Payers", f"{format_count(demand.payers)}, {returning}"),
        ("Without its largest payer", without if rest.calls else "none"),
    ][: 3 if demand.payments else 0]
    apart = (
        ("Paid to itself", demand.self_payments),
        ("To payers who were paid back", demand.cycle_payments),
        ("Of an amount that no endpoint asks", demand.price_unmatched),
    )
    facts += [(label, quantity(count, "payment")) for label, count in apart if count]
    chart = None
    if demand.payments and demand.daily and demand.inputs.end:
        last = datetime.fromisoformat(demand.inputs.end)
        days = (last - timedelta(days) for days in reversed(range(len(demand.daily))))
        chart = _chart("day", [*map(_date, days)], "Payments", demand.daily, format_count)
    return ShownDemand(f"{quantity(demand.payments, 'payment')} in 30 days", facts, chart)


def shares_of(snapshot: Snapshot) -> list[tuple[str, list[tuple[str, int]], int]]:
    """Return the counts by network, category and price, each with its title and number of all."""
    services = snapshot.manifest.counts.services
    shares = [
        (
            f"Services by {name}",
            [
                (label(str(each["value"])) or "None", int(each["count"]))
                for each in snapshot.filters.columns[name].count(None)[:MAX_SHARES]
            ],
            services,
        )
        for name, label in (("network", network_label), ("category", str))
    ]
    prices = snapshot.offers.arrays["usd_price"]
    known = prices[~np.isnan(prices)]
    places = np.searchsorted(PRICE_STEPS, known, side="right")
    counts = np.bincount(places, minlength=len(PRICE_LABELS)).tolist()
    labels = zip(PRICE_LABELS, counts, strict=True)
    return [*shares, ("Ways to pay by price of a call, in US dollars", [*labels], len(known))]


def popular_services(tables: Ecosystem) -> list[PopularService]:
    """Return the services with most payments in 30 days, most first."""
    return _popular.decode(tables.popular)


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
    return f"{start:%H:%M}" if unit == "hour" else _date(start)


def _date(moment: datetime) -> str:
    return f"{moment:%b} {moment.day}"


def _chart(
    unit: str,
    labels: Sequence[str],
    name: str,
    values: Sequence[int],
    format_value: Callable[[float], str],
) -> dict[str, Any]:
    """Return a bar chart; `scale` has the labels of its highest value and of half of it.

    A bar lies within its column; `bars` have no text of others.
    """
    highest, step, interval = max(values), 100 / len(values), -(-len(values) // MAX_LABELS)
    maximum = _round_up(highest)
    titles = [
        f"{label}: {format_value(value)}" for label, value in zip(labels, values, strict=True)
    ]
    return {
        "caption": (caption := f"{name} by {unit}"),
        "summary": f"{caption}, {labels[0]} to {labels[-1]}; most on "
        f"{titles[values.index(highest)]}",
        "scale": (format_value(maximum), format_value(maximum / 2)),
        "bars": "\n".join(
            f'<g class="bar"><rect class="column" x="{step * index:.7g}%" y="{TOP}" '
            f'width="{step:.7g}%" height="{HEIGHT}"/>'
            f'<rect x="{step * (index + GAP):.7g}%" width="{step * (1 - 2 * GAP):.7g}%" '
            f'y="{TOP + HEIGHT * (1 - value / maximum):.7g}" '
            f'height="{HEIGHT * value / maximum:.7g}"/><title>{title}</title></g>'
            + f'<text x="{step * (index + 0.5):.7g}%" y="172">{labels[index]}</text>'
            * (index % interval == 0)
            for index, (title, value) in enumerate(zip(titles, values, strict=True))
        ),
    }


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
