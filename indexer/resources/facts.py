"""Facts of resources: the members in which people state each, in order of preference.

Names are compared without case, `_` and `-`. A fact is taken from its first spelling that has a
valid value, and of that from the first place: the most specific places come first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, TypeVar

from indexer.untrusted import line

NAMES = {
    "url": "resource url endpoint uri href",
    "method": "method httpmethod verb httpverb",
    "route": "routetemplate",
    "input": "input inputschema requestschema parameters params",
    "body type": "bodytype bodycontenttype requestcontenttype",
    "media type": "contenttype mimetype mediatype",
    "output": "output responseschema outputexample",
    "service name": "servicename",
    "name": "name title",
    "description": "description summary",
    "category": "category",
    "tags": "tags keywords",
    "icon": "iconurl icon logourl logo",
    "updated": "lastupdated updatedat",
    "auth": "requires auth authentication",
    "server": "serverurl mcpurl server endpoint",
    "scheme": "scheme paymentscheme",
    "rail": "method paymentmethod",
    "intent": "intent",
    "network": "network networkid chain chainid blockchain",
    "asset": "asset assetaddress token tokenaddress",
    "payee": "payto paytoaddress payee recipient receiver",
    "currency": "currency currencycode tokensymbol symbol",
    "amount": "amount",
    "base amount": "maxamountrequired amountatomic atomicamount baseamount",
    "price": "price value priceusd usdprice cost fixedprice",
    "least": "min minprice minamount",
    "most": "max maxprice maxamount",
    "unit": "unittype unit per",
    "amount text": "amounthint description",
    "decimals": "decimals tokendecimals",
}
"""The spellings of the members that state each fact."""
SPELLINGS = {fact: tuple(names.split()) for fact, names in NAMES.items()}
_KNOWN = frozenset(name for names in SPELLINGS.values() for name in names)
# Names of members that are read elsewhere, although they look like facts.
_OTHER_NAMES = """
accepts outputschema inputschema requestschema discoveryinfo queryparams query queryparameters
querystring bodyfields bodyparams body requestbody pathparams path pathparameters
"""
_OTHERS = frozenset(_OTHER_NAMES.split())
_looks_like = re.compile(
    "price|cost|amount|currency|network|chain|asset|token|payto|payee|recipient|scheme|httpmethod"
    "|method|input|param|body|mime|contenttype|tags|keyword|category|auth|unit"
)

LONGEST = 64  # characters
MAX_MEMBERS = 200  # of one object
SHAPES = 64
"""Objects of different members whose names are remembered: those of a feed have few shapes."""

Value = TypeVar("Value")


def fold(name: str) -> str:
    """Return a name as it is compared; a longer one than LONGEST states no fact."""
    return _fold(name) if len(name) <= LONGEST else name


@lru_cache(maxsize=4096)
def _fold(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


@lru_cache(maxsize=SHAPES)
def _facts_among(names: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the names of members that state facts, each with its spelling."""
    return [(name, spelling) for name in names if (spelling := fold(name)) in _KNOWN]


def looks_like_fact(name: str) -> bool:
    """Whether a member that states no known fact has the name of one."""
    return len(name) <= LONGEST and _looks_like_fact(name)


@lru_cache(maxsize=4096)
def _looks_like_fact(name: str) -> bool:
    folded = fold(name)
    is_known = folded in _KNOWN or folded in _OTHERS
    return not is_known and _looks_like.search(folded) is not None


class Places:
    """Objects in which facts may stand, the most specific first; other values hold none.

    Of an object the first MAX_MEMBERS members are read.
    """

    def __init__(self, *values: Any) -> None:
        members: dict[str, list[tuple[str, Any]]] = {}
        for value in values:
            if value and isinstance(value, dict):
                for name, spelling in _facts_among(tuple(islice(value, MAX_MEMBERS))):
                    member = value[name]
                    if member is None or member == "":
                        continue
                    if spelling in members:
                        members[spelling].append((name, member))
                    else:
                        members[spelling] = [(name, member)]
        self._members = members

    def stated(self, *facts: str) -> Iterator[tuple[str, str, Any]]:
        """Yield each member that states a fact: the fact, its name and its value."""
        for fact in facts:
            for spelling in SPELLINGS[fact]:
                for name, value in self._members.get(spelling, ()):
                    yield fact, name, value

    def find(self, fact: str, read: Callable[[Any], Value]) -> Value | None:
        """Return the first valid value of a fact; `read` returns an empty one for others."""
        for spelling in SPELLINGS[fact]:
            for _, value in self._members.get(spelling, ()):
                if found := read(value):
                    return found
        return None

    def line(self, fact: str, most: int) -> str:
        """Return a fact that is a short text, or an empty string."""
        return self.find(fact, lambda value: line(value, most)) or ""
