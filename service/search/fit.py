"""How well a row fits a query: its score without prior favours, against a learned threshold."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

FIT_WEIGHT = 10
"""Units of BM25F score that a cosine of 1 adds to a fit, whether or not a query is specific."""
NOTHING_FITS = (
    "no listing matches well; name the capability as its seller would, "
    "such as geocoding, OCR or KYC"
)

Score = Annotated[float, Meta(ge=0, le=10_000)]


class FitThreshold(Struct, frozen=True):
    """The least fit of a useful row: shorter queries reach less.

    fit: for a query of at least `words` words
    words: on average of the longest questions that it was learned by
    per_word: by which it is lower for each word fewer, down to half
    """

    fit: Annotated[float, Meta(ge=0.01, le=10_000)]
    words: Score
    per_word: Score

    def share(self, fit: float, words: int) -> float:
        """Return the fit of a row to a query of so many words by its threshold, two digits."""
        missing = max(self.words - words, 0.0)
        return round(max(fit, 0.0) / max(self.fit - self.per_word * missing, self.fit / 2), 2)


def warning_of(fit: float | None) -> str | None:
    """Return the sentence for an answer whose first row does not fit, else None."""
    return NOTHING_FITS if fit is not None and fit < 1 else None
