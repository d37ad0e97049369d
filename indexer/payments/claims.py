"""Claims: by which endpoints the services of a catalogue ask for payment, and how these rank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import NamedTuple

from indexer.payments.credit import NO_ENDPOINT, Claim
from indexer.resources.assets import is_usd
from indexer.resources.resource import Resource
from indexer.sources.decisions import Decisions
from indexer.x402.endpoints import decode_endpoints
from service.networks import network_key
from service.urls import find_url


class _Place(NamedTuple):
    """The domain of a service and the host, the payee and the network of a claim by it."""

    owner: str
    host: str
    payee: str
    network: str

    def __str__(self) -> str:
        return "\n".join(self)


LOWEST = -(2**62)


class Claims:
    """Ranks claims: by trust in their source, then by whether they counted in the served snapshot.

    A claim that counted is one of the best to its payee and network: whoever names the address of
    another later never ranks as high.
    """

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions
        self._ranks: dict[_Place, int] = {}

    def of_record(self, text: bytes, owner: str, trust: int) -> Iterator[Claim]:
        """Yield the claims of the endpoints of a record that name in `payTo` who is paid."""
        if b'"payTo"' not in text:
            return
        for number, endpoint in enumerate(decode_endpoints(text)):
            if payee := endpoint.payee:
                pricing = endpoint.decode_pricing()
                is_priced = pricing.amount and is_usd(pricing.currency)
                yield self._claim(
                    number,
                    _Place(owner, _host(endpoint.url), payee, network_key(pricing.network or "")),
                    asset="",
                    amount=Decimal(pricing.amount) if is_priced else None,
                    scheme=pricing.scheme or "",
                    trust=trust,
                )

    def of_listings(
        self, text: bytes, owner: str, listings: Iterable[tuple[int, Resource]]
    ) -> Iterator[Claim]:
        """Yield the claims of the entries of listings, each after the trust in its source.

        `text` is the record of their service.
        """
        numbers: dict[tuple[str, str], int] = {}
        for number, endpoint in enumerate(decode_endpoints(text)):
            numbers.setdefault((endpoint.url, endpoint.method), number)
        for trust, listing in listings:
            endpoint_key = listing.url, listing.method
            host = _host(listing.url)
            for entry in listing.entries:
                if entry.pay_to:
                    yield self._claim(
                        numbers.get(endpoint_key, NO_ENDPOINT),
                        _Place(owner, host, entry.pay_to, network_key(entry.network)),
                        asset=entry.asset,
                        amount=Decimal(entry.price) if entry.is_usd and entry.price else None,
                        scheme=entry.scheme,
                        trust=trust,
                    )

    def decide(self) -> None:
        """Record the claims that count, so that the next build ranks them higher."""
        best: dict[tuple[str, str], int] = defaultdict(lambda: LOWEST)
        of_payee: dict[str, int] = defaultdict(lambda: LOWEST)
        for place, rank in self._ranks.items():
            key = place.payee, place.network
            best[key] = max(best[key], rank)
            of_payee[place.payee] = max(of_payee[place.payee], rank)
        for place, rank in self._ranks.items():
            anywhere, is_counted = best[place.payee, ""], rank % 2
            is_best = rank >= max(best[place.payee, place.network], anywhere)
            # A claim to every network has one rank: raised where it is best on some only, or left
            # below the claims that it equals, it would change who is credited by the next build.
            if is_best and (rank > anywhere or rank >= of_payee[place.payee] or is_counted):
                self._decisions.count(str(place))

    def _claim(
        self,
        endpoint: int,
        place: _Place,
        *,
        asset: str,
        amount: Decimal | None,
        scheme: str,
        trust: int,
    ) -> Claim:
        rank = trust * 2 + self._decisions.has_claim(str(place))
        self._ranks[place] = max(rank, self._ranks.get(place, rank))
        return Claim(
            endpoint=endpoint,
            host=place.host,
            payee=place.payee,
            network=place.network,
            asset=asset,
            amount=amount,
            is_exact=scheme.casefold() in {"", "exact"},
            rank=rank,
        )


def _host(url: str) -> str:
    parsed = find_url(url)  # the URL of a catalogue record may be any text
    return parsed.domain if parsed else ""
