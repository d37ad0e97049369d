"""Rules: the policy and the denials of an operator, by which resources are listed or left out."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from indexer.assets.stablecoins import Stablecoins
from indexer.errors import LeftOut
from indexer.options import Policy, Stablecoin
from indexer.sources.denials import Denials
from indexer.x402.listing import MAX_ENTRIES
from indexer.x402.members.dates import MICROSECOND, NEVER, SECOND, parse_moment, since_epoch
from indexer.x402.members.prices import Accepted
from indexer.x402.outline import Outline
from service.schema.values import EPOCH, format_timestamp
from service.urls import ParsedUrl

SIZE = "listings that are too large"
OLD = "old listings"
CLOCK_SKEW = 3600 * SECOND


class Rules:
    """The rules that decide whether a resource is listed; `now` is when the build began."""

    def __init__(
        self, policy: Policy, denials: Denials | None = None, now: datetime | None = None
    ) -> None:
        self.policy = policy
        self.denials = denials or Denials(())
        self.stablecoins = Stablecoins(policy.stablecoins)
        self._now = None if now is None else since_epoch(now)
        self._latest = NEVER if self._now is None else self._now + CLOCK_SKEW
        self._max_price = float(policy.max_price)
        self.holds_until: int | None = None
        """The last moment at which each decision is the same, in microseconds; None for ever."""

    @property
    def decided(self) -> Policy:
        """The policy, with the removals of overlays among its denials."""
        return replace(self.policy, deny=self.denials.rules)

    def hold_until(self, moment: int) -> None:
        """Note that a later build may decide otherwise after a moment, in microseconds."""
        self.holds_until = moment if self.holds_until is None else min(self.holds_until, moment)

    def read_time(self, value: Any) -> int:
        """Return a time in microseconds, NEVER for one that is no time or in the future."""
        moment = parse_moment(value)
        if self._now is not None and moment > self._latest:
            self.hold_until(moment - CLOCK_SKEW - 1)
            return NEVER
        return moment

    def admit(self, outline: Outline) -> bool:
        """Whether a resource that was read `without_judgement` stands as it is.

        False for a resource to read again, as a rule may leave it out or a date is in the future.
        Raises LeftOut for an old listing.
        """
        policy = self.policy
        is_admitted = (
            (policy.allow_http or not outline.is_http)
            and (policy.allow_private or not outline.is_private)
            and outline.price < self._max_price
            and (self._now is None or outline.latest <= self._latest)
            and self.denials.find(
                host=outline.host,
                domain=outline.domain,
                payees=outline.payees,
                urls=(outline.given, outline.identity),
            )
            is None
        )
        if is_admitted:
            self.check_age(outline.updated)
        return is_admitted

    def check_age(self, updated: int) -> None:
        """Raise LeftOut for a listing that was updated longer ago than the policy allows."""
        max_age = self.policy.max_age
        if max_age is None or self._now is None or updated == NEVER:
            return
        if self._now - updated > max_age * SECOND:
            moment = format_timestamp(EPOCH + updated * MICROSECOND)
            days = max_age // (24 * 3600)
            reason = f"was updated at {moment}, longer ago than the {days:,} days of `max_age`"
            raise LeftOut(OLD, "$.lastUpdated", reason)
        self.hold_until(updated + max_age * SECOND)


@lru_cache(maxsize=16)
def without_judgement(stablecoins: tuple[Stablecoin, ...]) -> Rules:
    """Return rules that leave out only listings which no option admits."""
    return Rules(
        Policy(
            max_price=Decimal("Infinity"),
            allow_http=True,
            allow_private=True,
            stablecoins=stablecoins,
        )
    )


def check_address(path: str, parsed: ParsedUrl, rules: Rules) -> None:
    """Raise LeftOut for a URL at a JSON path that the policy leaves out, or that is taken down."""
    policy = rules.policy
    if parsed.scheme not in {"http", "https"}:
        raise LeftOut("resources not over https", path, f"is a resource of {parsed.scheme}:")
    if parsed.is_private and not policy.allow_private:
        raise LeftOut("private addresses", path, f"{parsed.host} is not on the public internet")
    if parsed.has_credentials:
        raise LeftOut("URLs with credentials", path, "names a user before the host")
    if parsed.scheme == "http" and not policy.allow_http:
        raise LeftOut("http resources", path, "is not encrypted")
    rules.denials.check(path, host=parsed.host, domain=parsed.domain, urls=[parsed.identity])


def check_accepted(accepted: Accepted, payees: list[str], rules: Rules) -> None:
    """Raise LeftOut for too many entries of `accepts`, an address taken down, or the price."""
    if (count := len(accepted.entries)) > MAX_ENTRIES:
        reason = f"has {count:,} entries; at most {MAX_ENTRIES:,} are listed"
        raise LeftOut(SIZE, "$.accepts", reason)
    rules.denials.check("$.accepts", payees=payees)
    check_price(f"$.accepts[{accepted.index}]", accepted.amount, accepted.pricing.currency, rules)


def check_price(path: str, amount: Decimal | None, currency: str, rules: Rules) -> None:
    """Raise LeftOut for an amount at a JSON path that is implausible for one request."""
    highest = rules.policy.max_price
    if amount is not None and amount > highest:
        reason = f"{amount:f} {currency} is more than {highest:f}, the maximum price of a request"
        raise LeftOut("implausible prices", path, reason)
