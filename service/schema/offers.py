"""The schema of ways to pay that documents state, beside the entries of `accepts` of x402."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from service.schema.values import DecimalAmount

MAX_DECIMALS = 36


class PaymentOffer(Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """A way to pay for a request; members are left out where the document has none.

    `protocol` is `x402`, `mpp` or another one; `method` and `intent` are terms of MPP, `scheme` and
    `network` of x402. `amount` is a fixed one in units of `currency`, `minAmount` and `maxAmount`
    are bounds; each pays for one `unit`, where there is one, and else for a request. `baseAmount`
    is in base units of an `asset` whose `decimals` are not known, or differ among the methods of
    one payment. `payTo` is the address that is paid, where it is stated. `statedBy` is the kind of
    the document.
    """

    protocol: str
    stated_by: str
    method: str = ""
    intent: str = ""
    scheme: str = ""
    network: str = ""
    amount: DecimalAmount = ""
    min_amount: DecimalAmount = ""
    max_amount: DecimalAmount = ""
    currency: str = ""
    unit: str = ""
    asset: str = ""
    decimals: Annotated[int, Meta(ge=0, le=MAX_DECIMALS)] | None = None
    base_amount: str = ""
    pay_to: str = ""
    description: str = ""
