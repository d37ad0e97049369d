"""Drift: the listed ways to pay that the quotes of a 402 contradict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from enum import IntEnum
from typing import Any, NamedTuple

from indexer.probes.observation import Quote
from indexer.resources.entries import AMOUNT_KEYS, MAX_NAME, MPP, base_units
from indexer.sources.denials import fold_address
from indexer.untrusted import line
from service.networks import network_key
from service.prices import CEILINGS
from service.schema.offers import PaymentOffer
from service.schema.probes import Terms

PAYEE_OPTIONAL = frozenset(("charge", "session"))
"""Intents of MPP, whose directories seldom name who is paid: the amount alone is compared then."""
MAX_SHOWN = 10
"""Ways to pay that a drift shows of each side."""


class Verdict(IntEnum):
    """The outcome of a comparison, the best last.

    DRIFTED: a shared way to pay has another payee or amount
    UNKNOWN: no shared way to pay, or one that lacks a payee or an amount
    AGREED: each shared way to pay that can be compared is as listed
    """

    DRIFTED = 0
    UNKNOWN = 1
    AGREED = 2


class TermsComparison(NamedTuple):
    """A verdict, with the listed ways to pay that drifted and the quotes in their place."""

    verdict: Verdict
    listed: Sequence[Terms] = ()
    quoted: Sequence[Terms] = ()


def compare_terms(listed: Iterable[Terms], quoted: Iterable[Terms]) -> TermsComparison:
    """Compare listed ways to pay with quoted ones, by scheme, network and asset.

    A way with an absent member never drifts, nor do the schemes CEILINGS, whose amount is one.
    Several entries of one scheme, network and asset drift together: if no quote has the payee and
    the amount of any of them.
    """
    ours, theirs = _by_way(listed), _by_way(quoted)
    verdict = Verdict.UNKNOWN
    drifted: tuple[list[Terms], list[Terms]] = [], []
    for way in ours.keys() & theirs.keys():
        by_amount = way[0] in PAYEE_OPTIONAL and not any(each.pay_to for each in ours[way])
        own, other = (
            {(each.amount,) if by_amount else _price_of(each) for each in side[way]}
            for side in (ours, theirs)
        )
        is_whole = all(all(price) for price in own | other)
        if any(all(price) for price in own & other):
            verdict = max(verdict, Verdict.AGREED)
        elif is_whole:
            drifted[0].extend(ours[way])
            drifted[1].extend(theirs[way])
    if not drifted[0]:
        return TermsComparison(verdict)
    shown = (sorted(side, key=repr)[:MAX_SHOWN] for side in drifted)
    return TermsComparison(Verdict.DRIFTED, *shown)


def listed_terms(accepts: Iterable[Any]) -> list[Terms]:
    """Return the ways to pay of `accepts`, as a feed has it."""
    return [_read(entry) for entry in accepts if isinstance(entry, dict)]


def offered_terms(offers: Iterable[PaymentOffer]) -> list[Terms]:
    """Return the ways to pay of MPP that a document offers."""
    return [
        Terms(
            scheme=each.intent,
            network=each.method,
            asset=each.asset,
            amount=each.base_amount or _base_amount(each),
            pay_to=each.pay_to,
        )
        for each in offers
        if each.protocol == MPP
    ]


def quoted_terms(quotes: Iterable[Quote]) -> list[Terms]:
    """Return the ways to pay of an observation."""
    return [
        Terms(
            scheme=each.scheme or "",
            network=each.network or "",
            asset=each.asset or "",
            amount=digits_of(each.amount),
            pay_to=each.pay_to or "",
        )
        for each in quotes
    ]


def _read(entry: dict[str, Any]) -> Terms:
    scheme, network, asset, pay_to = (
        line(entry.get(key), MAX_NAME) for key in ("scheme", "network", "asset", "payTo")
    )
    amount = next((entry[key] for key in AMOUNT_KEYS if entry.get(key) not in (None, "")), None)
    return Terms(
        scheme=scheme, network=network, asset=asset, amount=digits_of(amount), pay_to=pay_to
    )


def digits_of(value: Any) -> str:
    """Return the digits of an amount, empty for none and for a dynamic one."""
    try:
        return base_units(value)
    except ValueError:
        return ""


def _base_amount(offer: PaymentOffer) -> str:
    if not offer.amount or offer.decimals is None:
        return ""
    return digits_of(format(Decimal(offer.amount).scaleb(offer.decimals).normalize(), "f"))


def _by_way(terms: Iterable[Terms]) -> dict[tuple[str, str, str], list[Terms]]:
    """Return terms by scheme, network and asset, without those that cannot be compared."""
    groups: dict[tuple[str, str, str], list[Terms]] = defaultdict(list)
    for each in terms:
        scheme = each.scheme.strip().casefold()
        way = scheme, network_key(each.network), fold_address(each.asset)
        if all(way) and scheme not in CEILINGS:
            groups[way].append(each)
    return groups


def _price_of(terms: Terms) -> tuple[str, str]:
    return terms.amount, fold_address(terms.pay_to)
