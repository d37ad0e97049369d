"""Rules: the policy and the denials of an operator, by which resources are listed or left out."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from indexer.errors import LeftOut
from indexer.options import Policy
from indexer.resources.assets import Stablecoins
from indexer.resources.listing import forget_dates
from indexer.resources.resource import Resource
from indexer.resources.x402 import price_resource
from indexer.sources.denials import Denials
from indexer.untrusted import MICROSECOND, NEVER, SECOND, parse_moment, since_epoch
from service.schema.values import EPOCH, format_timestamp
from service.urls import ParsedUrl, parse_url

OLD = "old listings"
CLOCK_SKEW = 3600 * SECOND
MAX_MOMENT = 2**63 - 1


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

    @property
    def latest(self) -> int:
        """The latest moment that is no date in the future, in microseconds."""
        return MAX_MOMENT if self._now is None else self._latest

    def read_time(self, value: Any) -> int:
        """Return a time in microseconds, NEVER for one that is no time or in the future."""
        moment = parse_moment(value)
        self.note_time(moment)
        return NEVER if moment > self.latest else moment

    def note_time(self, moment: int) -> None:
        """Note that a later build may believe a date, which is in the future now."""
        if moment > self.latest:
            self.hold_until(moment - CLOCK_SKEW - 1)

    def admit(self, outline: Resource) -> bool:
        """Whether a resource passes all rules as it is; raises LeftOut for an old listing."""
        policy = self.policy
        is_admitted = (
            outline.is_callable
            and (policy.allow_http or not outline.is_http)
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


def apply_rules(resource: Resource, rules: Rules) -> None:
    """Apply the rules to a resource, which loses dates in the future; raises LeftOut.

    Another entry is its price where that is above the highest one.
    """
    for url in dict.fromkeys((resource.server or resource.stated_url, resource.url)):
        if not resource.tool_url or url == resource.server:
            check_address("$.resource", parse_url(url), rules)
    rules.denials.check("$.accepts", payees=resource.payees)
    if resource.price > rules.policy.max_price:
        price_resource(resource, rules.policy.max_price)
    entry = resource.chosen_entry
    amount = Decimal(entry.price) if entry and entry.price else None
    check_price(f"$.accepts[{resource.chosen}]", amount, resource.pricing.currency, rules)
    for moment in (resource.updated, resource.called):
        rules.note_time(moment)
    forget_dates(resource, rules.latest)
    rules.check_age(resource.updated)


def check_price(path: str, amount: Decimal | None, currency: str, rules: Rules) -> None:
    """Raise LeftOut for an amount at a JSON path that is implausible for one request."""
    highest = rules.policy.max_price
    if amount is not None and amount > highest:
        reason = f"{amount:f} {currency} is more than {highest:f}, the maximum price of a request"
        raise LeftOut("implausible prices", path, reason)
