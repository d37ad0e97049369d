"""Drift: the listed ways to pay that the quotes of a 402 contradict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from indexer.intake.rules import fold_address
from indexer.probes.observation import Quote
from indexer.resources.entries import AMOUNT_KEYS, MAX_NAME, MPP, base_units
from indexer.untrusted import line
from service.networks import network_key
from service.prices import CEILINGS
from service.schema.probes import Terms
from service.schema.records import PaymentOffer

PAYEE_OPTIONAL = frozenset(("charge", "session"))
"""Intents of MPP, whose directories seldom name who is paid: the amount alone is compared then."""
MAX_SHOWN = 10
"""Ways to pay that a drift shows of each side."""
DRIFTED, UNKNOWN, AGREED = 0, 1, 2
"""Outcomes of a comparison, the best last: a shared way to pay has another payee or amount; none
can be compared; each that can be compared is as listed."""

Comparison = tuple[int, list[Terms], list[Terms]]
"""An outcome, with the listed ways to pay that drifted and the quotes in their place."""


def compare_terms(listed: Iterable[Terms], quoted: Iterable[Terms]) -> Comparison:
    """Compare listed ways to pay with quoted ones, by scheme, network and asset.

    A group drifts when no quote of the group has the payee and the amount of any listed way. Ways
    with an absent member never drift, nor do the schemes CEILINGS, whose amount is one.
    """
    ours, theirs = _by_way(listed), _by_way(quoted)
    outcome = UNKNOWN
    drifted: tuple[list[Terms], list[Terms]] = [], []
    for way in ours.keys() & theirs.keys():
        by_amount = way[0] in PAYEE_OPTIONAL and not any(each.pay_to for each in ours[way])
        own, other = (
            {(each.amount, "" if by_amount else fold_address(each.pay_to)) for each in side[way]}
            for side in (ours, theirs)
        )
        if any(amount and (by_amount or payee) for amount, payee in own & other):
            outcome = AGREED
        elif all(amount and (by_amount or payee) for amount, payee in own | other):
            drifted[0].extend(ours[way])
            drifted[1].extend(theirs[way])
    if drifted[0]:
        shown, instead = (sorted(side, key=repr)[:MAX_SHOWN] for side in drifted)
        return DRIFTED, shown, instead
    return outcome, [], []


def listed_terms(accepts: Iterable[Any], offers: Iterable[PaymentOffer] = ()) -> list[Terms]:
    """Return the ways to pay of `accepts`, as a feed has it, and those of MPP of a document."""
    of_mpp = (
        Terms(
            scheme=each.intent,
            network=each.method,
            asset=each.asset,
            amount=each.base_amount or _base_amount(each),
            pay_to=each.pay_to,
        )
        for each in offers
        if each.protocol == MPP
    )
    return [*(read_terms(each) for each in accepts if isinstance(each, dict)), *of_mpp]


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


def read_terms(entry: Mapping[str, Any]) -> Terms:
    """Return what an entry of `accepts` says, without members that are no short line or amount."""
    scheme, network, asset, pay_to = (
        line(entry.get(key), MAX_NAME) for key in ("scheme", "network", "asset", "payTo")
    )
    amount = next(filter(None, map(digits_of, map(entry.get, AMOUNT_KEYS))), "")
    return Terms(scheme=scheme, network=network, asset=asset, amount=amount, pay_to=pay_to)


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
