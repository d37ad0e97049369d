"""Entries of payment: ways to pay for a request, as `accepts` or any document states them."""

from __future__ import annotations

from msgspec import Struct

from service.schema.offers import PaymentOffer

ACCEPTS = "accepts"
"""The statement of x402 itself, among the kinds of documents that state entries."""
X402, MPP = "x402", "mpp"


class Entry(Struct, frozen=True, array_like=True, kw_only=True, gc=False):
    """A way to pay, whatever document states it; texts are empty where nothing is stated.

    stated_by: ACCEPTS, or the kind of the document
    scheme: of x402; method and intent: of MPP
    network, asset, pay_to: as they are stated
    currency, decimals: of the asset, if its decimals are known
    amount, min_amount, max_amount: a fixed price or its bounds in units of `currency`; each pays
        for one `unit`, where there is one, and else for a request
    base_amount: in base units, where the decimals are not known
    is_usd: whether the currency is a known stablecoin of the US dollar on a main network
    fault: the member whose amount is not valid, and why
    start, stop: of an entry of `accepts`, as bytes within the text of its resource
    """

    stated_by: str = ACCEPTS
    protocol: str = X402
    scheme: str = ""
    method: str = ""
    intent: str = ""
    network: str = ""
    asset: str = ""
    pay_to: str = ""
    currency: str = ""
    decimals: int | None = None
    amount: str = ""
    min_amount: str = ""
    max_amount: str = ""
    base_amount: str = ""
    unit: str = ""
    description: str = ""
    is_usd: bool = False
    fault: tuple[str, str] = ("", "")
    start: int = 0
    stop: int = 0

    @property
    def price(self) -> str:
        """The most that a request costs in units of the currency, or an empty string."""
        return "" if self.unit else self.amount or self.max_amount or self.min_amount

    def to_offer(self) -> PaymentOffer:
        """Return the entry of a document as it is served."""
        return PaymentOffer(
            **{name: getattr(self, name) for name in PaymentOffer.__struct_fields__}
        )
