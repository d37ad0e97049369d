"""Documents and queries to measure search with, the same in every run."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from msgspec import Struct

from tests.support.running import SHARED

REAL = SHARED / "scale" / "names_and_summaries_100k.jsonl.gz"
CATEGORIES = ("Data", "Infra", "Media", "Search", "Inference", "Trading", "Travel", "Social")
REQUESTS = (
    "I need a service that can",
    "please find me an api for",
    "can you find a tool to",
    "how do I",
)
WORD = re.compile(r"[A-Za-z]{3,}")


class Document(Struct):
    """What is searched."""

    name: str
    description: str
    category: str


class Query(Struct):
    """Words to search for, only in this category unless it is empty."""

    words: str
    category: str = ""


def make_documents(count: int) -> list[Document]:
    """Real names and summaries where they are at hand, otherwise words of a realistic vocabulary.

    More documents than there are texts pair names with the summaries of others.
    """
    chance = random.Random(3)
    texts = list(_real_texts() if REAL.exists() else islice(_invented_texts(), min(count, 100_000)))
    weights = [1 / rank for rank in range(1, len(CATEGORIES) + 1)]
    documents = []
    for number in range(count):
        again, position = divmod(number, len(texts))
        other = (position * (2 * again + 1) + again * 7919) % len(texts)
        (category,) = chance.choices(CATEGORIES, weights)
        documents.append(Document(texts[position][0], texts[other][1], category))
    return documents


def make_queries(documents: list[Document], count: int, seed: int) -> list[Query]:
    """Queries of one to twelve words: rare, frequent, mixed, sentences, misspelt and filtered."""
    chance = random.Random(seed)
    some = documents[:100_000]
    frequencies: Counter[str] = Counter()
    for document in some:
        frequencies.update(set(_words(f"{document.name} {document.description}")))
    ranked = [word for word, _ in frequencies.most_common()]
    frequent = ranked[:150]
    usual = [word for word in ranked if 20 <= frequencies[word] <= 1500]
    long = [word for word in usual if len(word) >= 6]
    rare = [word for word in ranked if frequencies[word] <= 5]
    sentences = [d.description for d in some if 6 <= len(d.description.split()) <= 12]

    def pick(words: list[str], least: int, most: int) -> list[str]:
        return [chance.choice(words) for _ in range(chance.randint(least, most))]

    kinds = (
        lambda: Query(" ".join(pick(rare, 1, 3))),
        lambda: Query(" ".join(pick(frequent, 1, 4))),
        lambda: Query(" ".join(pick(usual, 1, 4))),
        lambda: Query(" ".join(pick(usual, 1, 2) + pick(frequent, 1, 1) + pick(rare, 1, 1))),
        lambda: Query(chance.choice(sentences)),
        lambda: Query(chance.choice(sentences)),
        lambda: Query(
            " ".join([chance.choice(REQUESTS), *pick(usual, 2, 4), *pick(frequent, 1, 1)])
        ),
        lambda: Query(" ".join(_misspell(word, chance) for word in pick(long, 1, 3))),
        lambda: Query(" ".join(pick(usual + frequent * 5, 5, 12))),
        lambda: Query(" ".join(pick(usual + frequent, 1, 3)), chance.choice(CATEGORIES)),
    )
    return [kinds[number % len(kinds)]() for number in range(count)]


def _words(text: str) -> list[str]:
    return [word.lower() for word in WORD.findall(text)]


def _misspell(word: str, chance: random.Random) -> str:
    at = chance.randrange(1, len(word) - 1)
    letter = chance.choice("etaoin")
    return chance.choice(
        (
            word[:at] + word[at + 1 :],
            word[:at] + word[at + 1] + word[at] + word[at + 2 :],
            word[:at] + letter + word[at:],
            word[:at] + letter + word[at + 1 :],
        )
    )


def _real_texts() -> Iterator[tuple[str, str]]:
    with gzip.open(REAL) as file:
        for line in file:
            record = json.loads(line)
            yield record["name"], record["description"] or ""


def _invented_texts() -> Iterator[tuple[str, str]]:
    """Names and summaries of invented words whose frequencies follow Zipf's law."""
    chance = random.Random(1)
    syllables = [c + v for c in "bcdfghjklmnprstvwz" for v in ("a", "e", "i", "o", "u", "ar", "en")]
    lengths = (1, 2, 2, 3, 3, 4)
    vocabulary = [
        "".join(chance.choices(syllables, k=chance.choice(lengths))) for _ in range(60_000)
    ]
    cumulative, total = [], 0.0
    for rank in range(len(vocabulary)):
        total += 1 / (rank + 2.7)
        cumulative.append(total)
    while True:
        words = chance.choices(vocabulary, cum_weights=cumulative, k=chance.randint(5, 14))
        yield "-".join(chance.choices(vocabulary, k=chance.randint(1, 3))), " ".join(words)
