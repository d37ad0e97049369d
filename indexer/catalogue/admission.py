"""Admission: what a source may say in a catalogue record, by its trust and by the policy."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from urllib.parse import unquote

import msgspec
from msgspec import Raw

from indexer.catalogue.records import Record
from indexer.endpoints import NamedEndpoint, decode_endpoints
from indexer.errors import InvalidRecord, LeftOut
from indexer.intake.fates import Address, find_address
from indexer.intake.findings import Notice
from indexer.intake.rules import Rules, check_address, check_price, fold_host
from indexer.options import SourceOptions
from indexer.untrusted import raw_items, raw_members
from service.urls import as_clients_read, find_url

CURATED = ("id", "enriched", "isNew")
"""Members that only a curated source is believed in."""


Admitted = tuple[bytes | None, list[tuple[LeftOut | Notice, Address | None]]]
"""A record as it is admitted, None for its text as it came, and what is wrong with endpoints.

Endpoints with a notice are admitted. The URLs of the endpoints follow the reasons.
"""


_loose_host = re.compile(
    r"(?:(?:[a-z][a-z0-9+.-]*:)?//)?(?:[^/?#@]*@)?([^/?#\s]*\.[^/?#\s]*)", re.IGNORECASE
)


def admit(text: bytes, facts: Record, source: SourceOptions, rules: Rules) -> Admitted:
    """Return a valid record without what its source may not say, and without endpoints left out.

    An implausible price is noted, and its endpoint kept: the record has a seller to blame, and the
    endpoint may be right.

    A record that is admitted as it came keeps every byte. Raises LeftOut for a record that is taken
    down or has no endpoint left, and InvalidRecord if no domain identifies a record.
    """
    _check_host("$.domain", facts.domain, rules)
    is_believed = source.curated or not (facts.id is not None or facts.enriched or facts.is_new)
    is_within = facts.is_plain and facts.highest <= rules.policy.max_price
    if is_believed and is_within and rules.denials.is_empty:
        return None, []
    endpoints = decode_endpoints(text)
    faults = [
        _find_fault(f"$.endpoints[{number}]", endpoint, rules)
        for number, endpoint in enumerate(endpoints)
    ]
    found = [
        (fault, find_address(endpoint.url))
        for endpoint, fault in zip(endpoints, faults, strict=True)
        if fault is not None
    ]
    left_out = [fault for fault in faults if isinstance(fault, LeftOut)]
    kept = [number for number, fault in enumerate(faults) if not isinstance(fault, LeftOut)]
    if left_out and not kept:
        raise left_out[0]
    record = raw_members(text)
    if left_out:
        record.pop("priceSummary", None)  # of endpoints that are not listed
        items = raw_items(record["endpoints"])
        record["endpoints"] = Raw(msgspec.json.encode([items[number] for number in kept]))
    if not is_believed:
        for name in CURATED:
            record.pop(name, None)
        if not facts.domain:
            domain = _first_domain(endpoints[number].url for number in kept)
            record["domain"] = Raw(msgspec.json.encode(domain))
    return None if is_believed and not left_out else msgspec.json.encode(record), found


def _check_host(path: str, text: str, rules: Rules) -> None:
    """Raise LeftOut for text that is no valid URL, but names a host that is taken down."""
    match = None if rules.denials.is_empty else _loose_host.match(as_clients_read(text))
    if match is None:
        return
    domain = fold_host(unquote(match[1])).removesuffix(":443")
    rules.denials.check(path, host=domain.partition(":")[0].removesuffix("."), domain=domain)


def _find_fault(path: str, endpoint: NamedEndpoint, rules: Rules) -> LeftOut | Notice | None:
    """Return why an endpoint is left out, or why its price is not believed, or None."""
    try:
        if parsed := find_url(as_clients_read(endpoint.url)):
            check_address(f"{path}.url", parsed, rules)
        else:  # the URL of a catalogue record may be any text
            _check_host(f"{path}.url", endpoint.url, rules)
        rules.denials.check(f"{path}.payTo", payees=[endpoint.payee])
        offered = [offer.pay_to for offer in endpoint.payment_offers]
        rules.denials.check(f"{path}.paymentOffers", payees=offered)
    except LeftOut as fault:
        return fault
    pricing = endpoint.decode_pricing()
    try:
        for amount in (pricing.amount, pricing.min_amount, pricing.max_amount):
            if amount:
                check_price(f"{path}.pricing", Decimal(amount), pricing.currency, rules)
    except LeftOut as fault:
        reason = f"{fault.reason}: the endpoint is listed, and its price is not believed"
        return Notice(fault.rule, fault.path, reason)
    return None


def _first_domain(urls: Iterable[str]) -> str:
    """Return the domain of the first URL that has one; raises InvalidRecord without any."""
    for parsed in filter(None, map(find_url, urls)):
        return parsed.domain
    raise InvalidRecord("$.domain", "there is no domain, and ids of this source are not believed")
