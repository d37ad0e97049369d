"""Rules of robots.txt as RFC 9309 has them: which paths a crawler may request, and how often."""

from __future__ import annotations

import re
from typing import Self

from protego import Protego

MAX_RULES = 5_000
"""Lines of one file; the file of a site that has more counts as one that disallows everything."""
DISALLOW_ALL = "User-agent: *\nDisallow: /"

_version = re.compile(r"(?im)^([ \t]*user-agent[ \t]*:[ \t]*[A-Za-z_-]+)/\S*")


class Robots:
    """The rules for one crawler, and the seconds that a site wants between its requests."""

    def __init__(self, text: str, agent: str) -> None:
        self._rules, self._agent = Protego.parse(text), agent
        self.delay = self._rules.crawl_delay(agent) or 0.0

    @classmethod
    def parse(cls, content: bytes, agent: str) -> Self:
        """Return the rules of the groups that name an agent, or else of groups for all agents.

        A version behind the name of an agent, which RFC 9309 does not know, is ignored.
        """
        text = content.decode("utf-8-sig", "replace")
        if text.count("\n") > MAX_RULES:
            return cls(DISALLOW_ALL, agent)
        return cls(_version.sub(r"\1", text), agent)

    def allow(self, path: str) -> bool:
        """Whether a path with its query may be requested: the longest rule that matches decides."""
        return self._rules.can_fetch(path, self._agent)
