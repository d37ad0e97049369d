"""Denials: which hosts, domains, payees, services and endpoints are taken down."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from hashlib import blake2b

from indexer.errors import LeftOut
from indexer.options import DENIED, Denial
from service.schema.listings import DECLINED
from service.urls import ascii_host, parse_url

HASH_SIZE = 8  # bytes
NOTHING = re.compile("(?!)")
TAKEN_DOWN = "taken down"

_foreign = re.compile(r"[\s/?#@\\]")


class TakenDown(LeftOut):
    """A record that a denial removes; sellers see neither why nor where, unless it is public."""

    def __init__(self, path: str, denial: Denial, reason: str = "") -> None:
        super().__init__(TAKEN_DOWN, path, reason or denial.reason)
        self.args = (path, denial, reason)
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
        self.rules = tuple(denials)
        self.counts: Counter[Denial] = Counter()
        self._exact: dict[tuple[str, str], list[Denial]] = defaultdict(list)
        self._patterns: list[tuple[re.Pattern[str], Denial]] = []
        for denial in self.rules:
            self._add(denial)
        texts = [pattern.pattern for pattern, _ in self._patterns]
        self._any_pattern = re.compile("|".join(texts)) if texts else NOTHING
        self.is_empty = not self._exact and not texts

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
        keys = [("id", id), ("host", host), ("domain", fold_host(domain))]
        keys += [("payee", fold_address(payee)) for payee in payees]
        keys += [("url", url) for url in urls]
        matches = [denial for key in keys for denial in self._exact.get(key, ())]
        if host and self._any_pattern.fullmatch(host):
            matches += [denial for each, denial in self._patterns if each.fullmatch(host)]
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
        patterns = (("host", pattern.pattern) for pattern, _ in self._patterns)
        return sorted(
            blake2b("\n".join(key).encode(), digest_size=HASH_SIZE).hexdigest()
            for key in {*self._exact, *patterns}
        )

    def _add(self, denial: Denial) -> None:
        for field, given in named(denial):
            value = normal_form(field, given)
            if field == "host" and "*" in value:
                self._patterns.append((host_pattern(value), denial))
            else:
                has_port = field == "host" and ":" in value
                self._exact["domain" if has_port else field, value].append(denial)


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
