"""A generated catalogue with a host that stuffs frequent words, and a large sound service.

Words are generated, with frequencies by Zipf's law; HEAD are the 46 most frequent. PHRASES are 120
pairs of HEAD, what ordinary services are about: 4,000 services have up to three phrases each, and 1
to 8 endpoints, each named and described by a phrase and other words. Beside them there are

- `stuffer`: 1,000 endpoints on one host, each named and described by another pair of HEAD. The
  queries for it are PHRASES, as they are typed.
- `sound`: 400 endpoints with texts as those of ordinary services, about all phrases. A query for it
  is a word of the name of an endpoint, and two words of its description that are not in HEAD.

Both have descriptions joined from those of their endpoints.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import accumulate, combinations

from msgspec import Struct

from indexer.catalogue.services import MAX_DESCRIPTION
from service.snapshot.snapshot import Snapshot
from tests.support.running import Json, endpoint, service

SERVICES = 4000
STUFFED = 1000
SOUND = 400
QUERIES = 120
PAGE = 24

_rng = random.Random(17)  # noqa: S311  # the same texts in every run
_syllables = [first + second for first in "bcdfghjklmnprstvwz" for second in "aeiou"]
_lengths = _rng.choices((2, 3, 3, 4), k=2000)
VOCABULARY = list(dict.fromkeys("".join(_rng.choices(_syllables, k=each)) for each in _lengths))
HEAD = VOCABULARY[:46]
PAIRS = list(combinations(HEAD, 2))
PHRASES = _rng.sample(PAIRS, QUERIES)
_weights = list(accumulate(1 / (rank + 60) for rank in range(len(VOCABULARY))))
_phrase_weights = list(accumulate(1 / (rank + 40) for rank in range(len(PHRASES))))


class Places(Struct):
    """The places of a service for queries, 0 for those that do not list it on the first page."""

    places: list[int]

    @property
    def first_pages(self) -> int:
        """The number of first pages that list the service."""
        return sum(place > 0 for place in self.places)

    @property
    def reciprocal_rank(self) -> float:
        """The mean reciprocal rank."""
        return sum(1 / place for place in self.places if place) / len(self.places)


class StuffedCatalogue:
    """The records, and the queries for the two large services."""

    def __init__(self) -> None:
        self._rng = random.Random(5)  # noqa: S311  # the same
        self.records = [self._ordinary(number) for number in range(SERVICES)]
        pairs = self._rng.sample(PAIRS, STUFFED)
        stuffed = [_endpoint("stuffer.example", pair, " ".join(pair)) for pair in pairs]
        sound = [self._endpoint("sound.example", PHRASES) for _ in range(SOUND)]
        self.records += [_large("stuffer", stuffed), _large("sound", sound)]
        self.queries = {
            "stuffer": [" ".join(phrase) for phrase in PHRASES],
            "sound": [self._ask(each) for each in self._rng.sample(sound, QUERIES)],
        }

    def places(self, snapshot: Snapshot, service_id: str) -> Places:
        """Return the places of a large service for its queries."""
        pages = [snapshot.search(query, PAGE).ids for query in self.queries[service_id]]
        return Places([page.index(service_id) + 1 if service_id in page else 0 for page in pages])

    def _words(self, least: int, most: int) -> list[str]:
        return self._rng.choices(VOCABULARY, cum_weights=_weights, k=self._rng.randint(least, most))

    def _ordinary(self, number: int) -> Json:
        phrases = self._rng.choices(PHRASES, cum_weights=_phrase_weights, k=3)
        name = [*self._rng.sample(phrases[0], self._rng.randint(1, 2)), *self._words(0, 1)]
        description = [*dict.fromkeys(sum(phrases, ())), *self._words(3, 8)]
        host = f"api{number}.example"
        count = self._rng.randint(1, 8)
        return service(
            f"service-{number}",
            name=" ".join(name),
            description=" ".join(self._shuffled(description)),
            endpoints=[self._endpoint(host, phrases) for _ in range(count)],
        )

    def _endpoint(self, host: str, phrases: Sequence[tuple[str, str]]) -> Json:
        """Return an endpoint that is about one of the phrases, every second one named by it."""
        phrase = self._rng.choice(phrases)
        name = self._shuffled([*phrase, *self._words(0, 1)])
        return _endpoint(host, name, " ".join(self._shuffled([*phrase, *self._words(2, 10)])))

    def _ask(self, endpoint: Json) -> str:
        name = endpoint["url"].rpartition("/")[2].split("-")
        words = endpoint["description"].split()
        own = [word for word in dict.fromkeys(words) if word not in HEAD and word not in name]
        return " ".join([self._rng.choice(name), *self._rng.sample(own, min(2, len(own)))])

    def _shuffled(self, words: list[str]) -> list[str]:
        return self._rng.sample(words, len(words))


def _endpoint(host: str, name: Sequence[str], description: str) -> Json:
    url = f"https://{host}/{'-'.join(name)}"
    return endpoint() | {"url": url, "description": description}


def _large(service_id: str, endpoints: list[Json]) -> Json:
    description = "; ".join(each["description"] for each in endpoints)[:MAX_DESCRIPTION]
    return service(
        service_id, name=service_id.title(), description=description, endpoints=endpoints
    )
