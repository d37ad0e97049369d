"""Rules of robots.txt as RFC 9309 has them: which paths a crawler may request, and how often.

`urllib.robotparser` knows no wildcards and takes the first rule that matches rather than the
longest, so that it would allow what a site disallows.
"""

from __future__ import annotations

import re
from typing import Self
from urllib.parse import quote

from msgspec import Struct

MAX_RULES = 5_000
"""Rules of one file; the file of a site that has more counts as one that disallows everything."""

_line = re.compile(r"[ \t]*([A-Za-z-]+)[ \t]*:[ \t]*([^#]*?)[ \t]*(?:#.*)?")
_word = re.compile(r"[A-Za-z_-]+")
_escape = re.compile(r"%[0-9A-Fa-f]{2}")


class Rule(Struct, frozen=True):
    """A pattern of paths, and whether it allows or disallows them."""

    pattern: str
    allows: bool

    def matches(self, path: str) -> bool:
        """Whether a path starts with the pattern, where `*` is any text and a last `$` the end."""
        first, *others = self.pattern.removesuffix("$").split("*")
        if not path.startswith(first):
            return False
        at, is_whole = len(first), self.pattern.endswith("$")
        last = others.pop() if others and is_whole else None
        for part in others:  # the leftmost match leaves most to the parts that follow
            at = path.find(part, at)
            if at < 0:
                return False
            at += len(part)
        if last is not None:
            return path.endswith(last) and len(path) - len(last) >= at
        return at == len(path) or not is_whole


class Robots(Struct, frozen=True):
    """The rules for one crawler, and the seconds that a site wants between its requests."""

    rules: tuple[Rule, ...] = ()
    delay: float = 0

    @classmethod
    def parse(cls, text: bytes, agent: str) -> Self:
        """Return the rules of the groups that name an agent, or else of groups for all agents."""
        groups: dict[str, list[tuple[str, str]]] = {}
        agents: list[str] = []
        is_heading = False
        for line in text.decode("utf-8-sig", "replace").splitlines():
            match = _line.fullmatch(line)
            if match is None:
                continue
            key, value = match[1].lower(), match[2]
            if key == "user-agent":
                agents = agents if is_heading else []
                name = _word.match(value)
                agents.append(name[0].lower() if name else value)
                groups.setdefault(agents[-1], [])
            elif key in FIELDS:
                for each in dict.fromkeys(agents):
                    groups[each].append((key, value))
            is_heading = key == "user-agent" or (is_heading and key not in FIELDS)
        fields = groups.get(agent, groups.get("*", []))
        if len(fields) > MAX_RULES:
            return cls((Rule("/", allows=False),))
        rules = (
            Rule(_normalise(value), allows=key == "allow")
            for key, value in fields
            if key != DELAY and value
        )
        delays = (_seconds(value) for key, value in fields if key == DELAY)
        return cls(tuple(rules), max(delays, default=0))

    def allow(self, path: str) -> bool:
        """Whether a path with its query may be requested: the longest rule that matches decides."""
        path = _normalise(path)
        matches = (rule for rule in self.rules if rule.matches(path))
        longest = max(matches, key=lambda rule: (len(rule.pattern), rule.allows), default=None)
        return longest is None or longest.allows


DELAY = "crawl-delay"
FIELDS = frozenset(("allow", "disallow", DELAY))
DISALLOWED = Robots((Rule("/", allows=False),))


def _normalise(path: str) -> str:
    """Escape characters beyond ASCII, and write escapes in capitals."""
    return _escape.sub(lambda escape: escape[0].upper(), quote(path, safe=SAFE))


SAFE = "%/:?#[]@!$&'()*+,;=~"


def _seconds(value: str) -> float:
    return float(value) if re.fullmatch(r"[0-9]{1,6}(?:\.[0-9]{1,6})?", value) else 0
