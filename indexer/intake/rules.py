"""Rules: the policy and the denials of an operator, by which resources and records are left out."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import blake2b
from typing import Any

from indexer.errors import LeftOut
from indexer.options import DENIED, Denial, Policy
from indexer.untrusted import MICROSECOND, NEVER, SECOND, parse_moment, since_epoch
from service.schema.listings import DECLINED
from service.schema.values import EPOCH, format_timestamp
from service.urls import ParsedUrl, ascii_host, parse_url

TAKEN_DOWN = "taken down"
OLD = "old listings"
HASH_SIZE = 8  # bytes
CLOCK_SKEW = 3600 * SECOND
MAX_MOMENT = 2**63 - 1
LAST_DATE = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MICROSECOND

_foreign = re.compile(r"[\s/?#@\\]")


class TakenDown(LeftOut):
    """A record that a denial removes; sellers see neither why nor where, unless it is public."""

    def __init__(self, path: str, denial: Denial, reason: str = "") -> None:
        super().__init__(TAKEN_DOWN, path, reason or denial.reason)
        self.denial = denial

    @property
    def shown(self) -> tuple[str, str]:
        """The JSON path and the reason as sellers see them."""
        if self.denial.public:
            return self.path, f"{DECLINED}: {self.denial.reason}"
        return "", DECLINED


class Denials:
    """Finds the denial of a listing or a service; `counts` has how often each was found."""

    def __init__(self, denials: Iterable[Denial]) -> None:
        self.counts: Counter[Denial] = Counter()
        self._exact: dict[tuple[str, str], list[Denial]] = defaultdict(list)
        self._patterns: dict[str, list[Denial]] = defaultdict(list)
        for denial in denials:
            for field, given in named(denial):
                value = normal_form(field, given)
                if field == "host" and "*" in value:
                    self._patterns[host_pattern(value).pattern].append(denial)
                else:
                    has_port = field == "host" and ":" in value
                    self._exact["domain" if has_port else field, value].append(denial)
        self._any_pattern = re.compile("|".join(self._patterns) or "(?!)")
        self.is_empty = not self._exact and not self._patterns

    def find(
        self,
        *,
        id: str = "",  # noqa: A002  # the name of the field
        host: str = "",
        domain: str = "",
        payees: Iterable[str] = (),
        urls: Iterable[str] = (),
    ) -> Denial | None:
        """Return the first denial of any of these values, or None.

        `host` is in lower case and ASCII, and `urls` are in normal form, as `ParsedUrl` has both.
        """
        if self.is_empty:
            return None
        keys = [("id", id), ("host", host), ("domain", folded := fold_host(domain))]
        if ":" in folded:  # a denial without a port is of all ports
            keys.append(("domain", folded.rpartition(":")[0].removesuffix(".")))
        keys += [("payee", fold_address(payee.strip())) for payee in payees]
        keys += [("url", url) for url in urls]
        matches = [denial for key in keys for denial in self._exact.get(key, ())]
        if host and self._any_pattern.fullmatch(host):
            for pattern, denials in self._patterns.items():
                matches += denials if re.fullmatch(pattern, host) else ()
        self.counts.update(matches)
        return matches[0] if matches else None

    def check(
        self,
        path: str,
        *,
        host: str = "",
        domain: str = "",
        payees: Iterable[str] = (),
        urls: Iterable[str] = (),
    ) -> None:
        """Raise TakenDown for values at a JSON path of which one is denied."""
        if denial := self.find(host=host, domain=domain, payees=payees, urls=urls):
            raise TakenDown(path, denial)

    def unused(self, denials: Iterable[Denial]) -> list[str]:
        """Return those of these denials that nothing matched, with their reasons."""
        return [
            f"{field}:{value} ({each.reason})"
            for each in denials
            if each not in self.counts
            for field, value in named(each)
        ]

    def hashes(self) -> list[str]:
        """Return the sorted hashes of what is denied, whatever the reasons are."""
        return sorted(
            blake2b("\n".join(key).encode(), digest_size=HASH_SIZE).hexdigest()
            for key in {*self._exact, *(("host", pattern) for pattern in self._patterns)}
        )


class Rules:
    """The rules that decide whether a listing is published; `now` is when the build began."""

    def __init__(
        self, policy: Policy, denials: Denials | None = None, now: datetime | None = None
    ) -> None:
        self.policy = policy
        self.denials = denials or Denials(())
        self.now = None if now is None else since_epoch(now)
        self.holds_until: int | None = None
        """The last moment at which each decision is the same, in microseconds; None for ever."""

    def hold_until(self, moment: int) -> None:
        """Note that a later build may decide otherwise after a moment, in microseconds.

        A moment that has no date is never.
        """
        if moment > LAST_DATE:
            return
        self.holds_until = moment if self.holds_until is None else min(self.holds_until, moment)

    @property
    def latest(self) -> int:
        """The latest moment that is no date in the future, in microseconds."""
        return MAX_MOMENT if self.now is None else self.now + CLOCK_SKEW

    def read_time(self, value: Any) -> int:
        """Return a time in microseconds, NEVER for one that is no time or in the future."""
        moment = parse_moment(value)
        self.note_time(moment)
        return NEVER if moment > self.latest else moment

    def note_time(self, moment: int) -> None:
        """Note that a later build may believe a date, which is in the future now."""
        if moment > self.latest:
            self.hold_until(moment - CLOCK_SKEW - 1)

    def check_age(self, updated: int) -> None:
        """Raise LeftOut for a listing that was updated longer ago than the policy allows."""
        max_age = self.policy.max_age
        if max_age is None or self.now is None or updated == NEVER:
            return
        if self.now - updated > max_age * SECOND:
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


def check_price(path: str, amount: Decimal | None, currency: str, rules: Rules) -> None:
    """Raise LeftOut for an amount at a JSON path that is implausible for one request."""
    highest = rules.policy.max_price
    if amount is not None and amount > highest:
        reason = f"{amount:f} {currency} is more than {highest:f}, the maximum price of a request"
        raise LeftOut("implausible prices", path, reason)


def named(denial: Denial) -> Iterator[tuple[str, str]]:
    """Yield the fields that a denial names, and their values."""
    return ((field, value) for field in DENIED if (value := getattr(denial, field)))


def normal_form(field: str, value: str) -> str:
    """Return the value of a denial in normal form; raises ValueError for one that nothing has."""
    if field == "url":
        return parse_url(value).identity
    if not value.isprintable() or _foreign.search(value):
        raise ValueError(f"holds a blank or a character that no {field} has")
    if field in {"host", "domain"}:
        return ascii_host(value).removesuffix(".")
    return fold_address(value) if field == "payee" else value


def host_pattern(host: str) -> re.Pattern[str]:
    """Return the expression of a host in normal form, where `*` stands for any characters."""
    return re.compile(".*".join(map(re.escape, re.split(r"\*+", host))))


def fold_address(address: str) -> str:
    """Lower a hexadecimal address; other addresses are case-sensitive."""
    return address.lower() if address[:2] in {"0x", "0X"} else address


def fold_host(host: str) -> str:
    """Return the normal form of a host with or without a port, and any other text unchanged."""
    try:
        return ascii_host(host).removesuffix(".")
    except ValueError:
        return host
