"""Documents and queries for the benchmarks, the same in every run."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice

from msgspec import Struct

from tests.support.running import SHARED

REAL_TEXTS = SHARED / "scale" / "names_and_summaries_100k.jsonl.gz"
CATEGORIES = ("Data", "Infra", "Media", "Search", "Inference", "Trading", "Travel", "Social")
REQUEST_PHRASES = (
    "I need a service that can",
    "please find me an api for",
    "can you find a tool to",
    "how do I",
)
MISSPELT, FILTERED = "misspelt", "filtered"
"""The kinds of queries whose words are misspelt, and that have a category."""
WORD = re.compile(r"[A-Za-z]{3,}")


class Document(Struct):
    """The searched fields of a service."""

    name: str
    description: str
    category: str


class Query(Struct):
    """Words to search for, their kind, and a category to filter by unless empty."""

    words: str
    kind: str
    category: str = ""


def make_documents(count: int) -> list[Document]:
    """Return documents of real names and summaries if available, otherwise of generated ones.

    More documents than texts combine each name with the summaries of other texts.
    """
    rng = random.Random(3)
    source = _real_texts() if REAL_TEXTS.exists() else _generated_texts()
    texts = list(islice(source, min(count, 100_000)))
    weights = [1 / rank for rank in range(1, len(CATEGORIES) + 1)]
    documents = []
    for number in range(count):
        repetition, position = divmod(number, len(texts))
        other = (position * (2 * repetition + 1) + repetition * 7919) % len(texts)
        (category,) = rng.choices(CATEGORIES, weights)
        documents.append(Document(texts[position][0], texts[other][1], category))
    return documents


def make_queries(documents: list[Document], count: int, seed: int) -> list[Query]:
    """Return queries of 1 to 12 words: rare, frequent, mixed, sentences, misspelt and filtered."""
    rng = random.Random(seed)
    sampled = documents[:100_000]
    frequencies: Counter[str] = Counter()
    for document in sampled:
        # The order of a set depends on PYTHONHASHSEED, and words of one frequency keep theirs.
        frequencies.update(sorted(set(_words(f"{document.name} {document.description}"))))
    ranked = [word for word, _ in frequencies.most_common()]
    frequent = ranked[:150]
    medium = [word for word in ranked if 20 <= frequencies[word] <= 1500]
    long = [word for word in medium if len(word) >= 6]
    rare = [word for word in ranked if frequencies[word] <= 5]
    sentences = [d.description for d in sampled if 6 <= len(d.description.split()) <= 12]

    def pick(words: list[str], minimum: int, maximum: int) -> list[str]:
        return [rng.choice(words) for _ in range(rng.randint(minimum, maximum))]

    def request() -> list[str]:
        return [rng.choice(REQUEST_PHRASES), *pick(medium, 2, 4), *pick(frequent, 1, 1)]

    kinds: tuple[tuple[str, Callable[[], list[str]]], ...] = (
        ("rare", lambda: pick(rare, 1, 3)),
        ("frequent", lambda: pick(frequent, 1, 4)),
        ("medium", lambda: pick(medium, 1, 4)),
        ("mixed", lambda: pick(medium, 1, 2) + pick(frequent, 1, 1) + pick(rare, 1, 1)),
        ("sentences", lambda: [rng.choice(sentences)]),
        ("sentences", lambda: [rng.choice(sentences)]),
        ("requests", request),
        (MISSPELT, lambda: [_misspell(word, rng) for word in pick(long, 1, 3)]),
        ("long", lambda: pick(medium + frequent * 5, 5, 12)),
        (FILTERED, lambda: pick(medium + frequent, 1, 3)),
    )
    queries = []
    for number in range(count):
        kind, choose = kinds[number % len(kinds)]
        words = " ".join(choose())
        queries.append(Query(words, kind, rng.choice(CATEGORIES) if kind == FILTERED else ""))
    return queries


def _words(text: str) -> list[str]:
    return [word.lower() for word in WORD.findall(text)]


def _misspell(word: str, rng: random.Random) -> str:
    at = rng.randrange(1, len(word) - 1)
    letter = rng.choice("etaoin")
    return rng.choice(
        (
            word[:at] + word[at + 1 :],
            word[:at] + word[at + 1] + word[at] + word[at + 2 :],
            word[:at] + letter + word[at:],
            word[:at] + letter + word[at + 1 :],
        )
    )


def _real_texts() -> Iterator[tuple[str, str]]:
    with gzip.open(REAL_TEXTS) as file:
        for line in file:
            record = json.loads(line)
            yield record["name"], record["description"] or ""


def _generated_texts() -> Iterator[tuple[str, str]]:
    """Yield names and summaries of generated words whose frequencies follow Zipf's law."""
    rng = random.Random(1)
    syllables = [c + v for c in "bcdfghjklmnprstvwz" for v in ("a", "e", "i", "o", "u", "ar", "en")]
    lengths = (1, 2, 2, 3, 3, 4)
    vocabulary = ["".join(rng.choices(syllables, k=rng.choice(lengths))) for _ in range(60_000)]
    cumulative, total = [], 0.0
    for rank in range(len(vocabulary)):
        total += 1 / (rank + 2.7)
        cumulative.append(total)
    while True:
        words = rng.choices(vocabulary, cum_weights=cumulative, k=rng.randint(5, 14))
        yield "-".join(rng.choices(vocabulary, k=rng.randint(1, 3))), " ".join(words)
