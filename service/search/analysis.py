"""Text to words and terms: one definition for indexing and for queries.

Text is normalised (NFKC, accents removed) and cut into words, identifiers are cut into their parts,
and English words are stemmed by Whoosh's Porter stemmer. No step looks beyond white space.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

from whoosh.lang.porter import stem

from service.search.stopwords import STOP_WORDS

LONGEST_WORD = 24  # letters
"""Letters of a word that may have a vector."""
CACHED_PIECES = 1 << 12
"""Pieces of texts whose words are kept, which saves a tenth of a search; none is long."""
LONGEST_NORMALISED = 4000  # characters
"""Characters of a query or a name that count after NFKD, which makes 18 characters of U+FDFA."""
SORTED_FROM = 100  # characters
"""Length of the texts whose combining marks are sorted before NFKD, whose own sort is quadratic."""


class Word(NamedTuple):
    """A folded word of a text; `redundant` when it is an identifier whose parts are words, too."""

    text: str
    redundant: bool


def words_of(text: str) -> list[Word]:
    """Return every word of a text in order, stop words included."""
    return _words_of_folded(text if text.isascii() else _normalise(text))


def query_words(text: str) -> list[Word]:
    """Return the distinct words of a query in order, without stop words unless all are."""
    words: dict[str, Word] = {}
    folded = text if text.isascii() else _normalise(text, LONGEST_NORMALISED)
    for word in _words_of_folded(folded):
        if not word.redundant or word.text not in words:
            words[word.text] = word
    return [word for word in words.values() if word.text not in STOP_WORDS] or list(words.values())


def is_encodable(word: str) -> bool:
    """Return whether a folded word may have a vector: English letters, and no stop word."""
    return (
        1 < len(word) <= LONGEST_WORD
        and word.isascii()
        and word.isalpha()
        and word not in STOP_WORDS
    )


def term_of(word: str) -> str:
    """Return the term of a folded word: its Porter stem if it is in English letters, or itself.

    Stop words and the words whose stem is one (AED, ToS, Withings) are terms as they are: a query
    for the latter would match nearly all documents otherwise.
    """
    if word in STOP_WORDS or not (word.isascii() and word.isalpha()):
        return word
    term: str = stem(word)
    return word if term in STOP_WORDS else term


def name_key(text: str) -> str:
    """Return the folded letters and digits of a name, equal for all spellings of it."""
    text = _spell_signs(text if text.isascii() else _normalise(text, LONGEST_NORMALISED))
    if text.isascii():
        return text.lower().encode().translate(None, _NOT_IN_NAMES).decode()
    return "".join(_NAME_CHARACTERS.findall(text.casefold()))


# Scripts written without blanks between words: Thai, Lao, Myanmar, Khmer; kana, Han; and Hangul.
_UNSPACED_CHARACTERS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff"
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u303b"
    "\u3041-\u30ff\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
# Python's \w lacks combining marks, without which words of Indic scripts would be cut apart.
_MARKS = "".join(
    chr(code)
    for block in (
        range(0x0300, 0x0370),
        range(0x0483, 0x0488),
        range(0x0591, 0x1D00),
        range(0xA800, 0xAC00),
    )
    for code in block
    if unicodedata.category(chr(code)) in ("Mn", "Mc")
)
_WORD_CHARACTER = rf"[^\W_]|[{_MARKS}]"
_UNSPACED = re.compile(rf"[{_UNSPACED_CHARACTERS}]+")
_PART = re.compile(
    rf"[{_UNSPACED_CHARACTERS}]+"
    r"|[A-Z]{2,}s(?![A-Za-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+"
    rf"|\d+|(?:(?![A-Za-z_{_UNSPACED_CHARACTERS}]|\d)(?:{_WORD_CHARACTER}))+"
)
_PUNCTUATION = ".,;:!?()[]{}<>'\"`*"
_OPENING = _PUNCTUATION.removeprefix(".")
_SIGNED_NAMES = (
    (re.compile(r"(?<![^\W_])([a-z])#(?![a-z_#+])", re.IGNORECASE), r"\1sharp"),
    (re.compile(r"(?<![^\W_])([a-z])\+\+(?![a-z_#+])", re.IGNORECASE), r"\1plusplus"),
    (re.compile(r"(?:(?<![^\W_])|(?<=\basp))\.net(?![^\W_])", re.IGNORECASE), " dotnet"),
)
"""Names whose signs are letters, and how people spell them without signs."""
_NOT_IN_NAMES = bytes(code for code in range(128) if not chr(code).isalnum())
_NAME_CHARACTERS = re.compile(rf"(?:{_WORD_CHARACTER})+")
_LETTERS_WITHOUT_DECOMPOSITION = str.maketrans(
    {
        "ß": "ss",
        "ẞ": "SS",
        "\u0131": "i",
        "ł": "l",
        "Ł": "L",
        "ø": "o",
        "Ø": "O",
        "đ": "d",
        "Đ": "D",
        "ð": "d",
        "Ð": "D",
    }
    | {"æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "þ": "th", "Þ": "Th", "ħ": "h", "Ħ": "H"}
)

_TOKEN = re.compile(rf"(?:{_WORD_CHARACTER}|_)+")
_LONG_RUN = re.compile(r"[\W\uff9e\uff9f]{32,}")
"""Characters that may be combining marks after NFKD: no letter or digit is, but these two."""


def _normalise(text: str, limit: int | None = None) -> str:
    """Return the text in NFKC, without the accents of alphabets; `limit` cuts it in NFKD.

    Combining classes tell the accents of Latin, Greek, Cyrillic, Hebrew and Arabic letters from
    marks that make other letters: vowel signs of Indic scripts have class 0, voicing marks of kana
    8. Hangul syllables, which NFKD takes apart, are composed again.
    """
    text = text.translate(_LETTERS_WITHOUT_DECOMPOSITION)
    if len(text) >= SORTED_FROM:
        text = _LONG_RUN.sub(_sort_marks, text)
    decomposed = unicodedata.normalize("NFKD", text)
    return unicodedata.normalize("NFC", "".join(filter(_is_not_accent, decomposed[:limit])))


def _sort_marks(run: re.Match[str]) -> str:
    """Return the decomposition of a run, each mark in its place as NFKD orders them."""
    characters = "".join(unicodedata.normalize("NFKD", each) for each in run[0])
    classes = [*map(unicodedata.combining, characters)]
    bases = accumulate(not each for each in classes)
    keys = [256 * base + own for base, own in zip(bases, classes, strict=True)]
    return "".join(map(characters.__getitem__, sorted(range(len(keys)), key=keys.__getitem__)))


def _is_not_accent(character: str) -> bool:
    combining_class = unicodedata.combining(character)
    return not (combining_class >= 200 or 10 <= combining_class <= 36)


def _spell_signs(text: str) -> str:
    """Spell the signs of names such as C#, C++20 and .NET, which analysis would cut off."""
    if "#" in text or "++" in text or ".net" in text.lower():
        for name, spelling in _SIGNED_NAMES:
            text = name.sub(spelling, text)
    return text


def _words_of_folded(text: str) -> list[Word]:
    words: list[Word] = []
    for piece in text.split():
        words += _words_of_piece(piece) if len(piece) <= LONGEST_WORD else _cut(piece)
    return words


def _cut(piece: str) -> tuple[Word, ...]:
    bare = piece.rstrip(_PUNCTUATION).lstrip(_OPENING)
    if bare.isascii() and bare.isalpha() and (bare.islower() or bare.istitle() or bare.isupper()):
        # Nine pieces in ten are plain words, for which the slow way has the same result.
        return (Word(bare.lower(), False),)
    return split_identifiers(piece)


_words_of_piece = lru_cache(CACHED_PIECES)(_cut)


def split_identifiers(piece: str) -> tuple[Word, ...]:
    """Return the words of a text without white space."""
    tokens = _TOKEN.findall(_spell_signs(piece))
    return tuple(word for token in tokens for word in words_of_token(token))


def words_of_token(token: str) -> Iterator[Word]:
    """Yield the parts of an identifier, cut where its case or character class changes, then all.

    YouTube becomes you, tube and youtube. Parts of a single letter (the o of GPT4o) are dropped, so
    that only the whole has them. Runs of scripts that are written without blanks become bigrams.
    """
    parts = _PART.findall(token)
    keeps_whole = len(parts) > 1 and not _UNSPACED.search(token)
    redundant = keeps_whole
    for part in parts:
        if keeps_whole and len(part) == 1 and part.isascii() and part.isalpha():
            redundant = False  # the whole alone has this letter
        elif _UNSPACED.match(part) and len(part) > 1:
            for left, right in pairwise(part):
                yield Word((left + right).casefold(), False)
        else:
            yield Word(part.casefold(), False)
    if keeps_whole:
        yield Word("".join(parts).casefold(), redundant)
