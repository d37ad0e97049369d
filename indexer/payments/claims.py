"""Claims: by which endpoints the services of a catalogue ask for payment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import NamedTuple

from indexer.endpoints import decode_endpoints
from indexer.intake.rules import fold_address
from indexer.resources.assets import is_usd
from indexer.resources.resource import Resource
from indexer.untrusted import string_of
from service.networks import network_key
from service.prices import EXACT
from service.urls import find_url

NO_ENDPOINT = -1


class Claim(NamedTuple):
    """An entry by which an endpoint of a service asks for payment.

    endpoint: its index in the record of the service, or NO_ENDPOINT where the record lacks it
    owner: the domain of the service
    host: the host of the endpoint, with a port that is not the default; empty without a valid URL
    payee: the address that is paid
    network: the key of the network; empty for every network
    asset: the address of the token; empty where it is unknown, which fits every token
    price: in US dollars, None where no exact price in US dollars is given
    trust: that in its source
    """

    endpoint: int
    owner: str
    host: str
    payee: str
    network: str
    asset: str
    price: Decimal | None
    trust: int

    @property
    def place(self) -> str:
        """The identity of the claim from one build to the next, in any spelling of the payee."""
        return "\n".join((self.owner, self.host, fold_address(self.payee), self.network))

    @property
    def earlier_place(self) -> str:
        """The identity that earlier releases stored, with the payee as it was spelt."""
        return "\n".join((self.owner, self.host, self.payee, self.network))


def claims_of_record(text: bytes, owner: str, trust: int) -> Iterator[Claim]:
    """Yield the claims of the endpoints of a record that name in `payTo` who is paid."""
    if b'"payTo"' not in text:
        return
    for number, endpoint in enumerate(decode_endpoints(text)):
        if payee := endpoint.payee:
            pricing = endpoint.decode_pricing()
            is_exact = is_usd(pricing.currency) and _is_exact(pricing.scheme or "")
            price = Decimal(pricing.amount) if pricing.amount and is_exact else None
            network = network_key(pricing.network or "")
            yield Claim(number, owner, _host(endpoint.url), payee, network, "", price, trust)


def claims_of_listings(
    text: bytes, owner: str, listings: Iterable[tuple[int, Resource]]
) -> Iterator[Claim]:
    """Yield the claims of the entries of listings, each after the trust in its source.

    `text` is the record of their service, in which an endpoint without `tool` has any tool.
    """
    numbers: dict[tuple[str, str, str], int] = {}
    for number, endpoint in enumerate(decode_endpoints(text)):
        numbers.setdefault((endpoint.url, endpoint.method, string_of(endpoint.tool)), number)
    for trust, listing in listings:
        call = listing.url, listing.method
        number = numbers.get((*call, listing.tool), numbers.get((*call, ""), NO_ENDPOINT))
        host = _host(listing.url)
        for entry in listing.entries:
            if entry.pay_to:
                is_priced = entry.price and entry.is_usd and _is_exact(entry.scheme)
                price = Decimal(entry.price) if is_priced else None
                network = network_key(entry.network)
                yield Claim(number, owner, host, entry.pay_to, network, entry.asset, price, trust)


def _is_exact(scheme: str) -> bool:
    return (scheme or EXACT).casefold() == EXACT


def _host(url: str) -> str:
    parsed = find_url(url)  # the URL of a catalogue record may be any text
    return parsed.domain if parsed else ""
