"""Lines that say why results are where they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from indexer.text import shorten
from service.records import Explanation


def describe_explanations(
    explanations: Sequence[Explanation], names: Sequence[str], offset: int
) -> Iterator[str]:
    """Yield a line for each result: its score, and the parts of that."""
    for rank, (each, name) in enumerate(zip(explanations, names, strict=True), offset + 1):
        parts = [f"{word.score:.2f} {_describe_term(word.word, word.term)}" for word in each.words]
        if each.similarity is not None:
            parts.append(f"{each.similarity_score:.2f} similarity {each.similarity:.2f}")
        first = " (its name is the query)" if each.is_exact_name else ""
        total = " + ".join(parts) or "nothing"
        penalty = f" - {each.size_penalty:.2f} size" if each.size_penalty else ""
        yield f"{rank:,}  {shorten(name)}: {each.score:.2f} = {total}{penalty}{first}"


def _describe_term(word: str, term: str) -> str:
    word, term = shorten(word), shorten(term)
    return word if word.startswith(term) else f"{word} → {term}"
