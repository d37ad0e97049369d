"""Text to terms: one definition for indexing and for queries.

Text is normalised (NFKC, accents off), cut into words, identifiers are cut into their parts, and
English words are stemmed. All of it is a chain of Whoosh analysers; because no step looks beyond
white space, the chain runs once for each distinct piece of text between blanks, and its result is
remembered.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain, pairwise
from typing import Any, NamedTuple

from whoosh.analysis import Filter, LowercaseFilter, RegexTokenizer, Token
from whoosh.fields import STORED, TEXT, Schema
from whoosh.lang.porter import stem
from whoosh.system import pack_uint

from service.search.stopwords import STOP_WORDS


class Word(NamedTuple):
    """A word of a text, folded but not stemmed, and whether the words before it say it all."""

    text: str
    joined: bool


def schema() -> Schema:
    """The fields of the index; `ordinal` is stored so that the documents' order can be checked."""
    return Schema(name=Terms(), description=Terms(), category=Terms(), ordinal=STORED)


def words_of(text: str) -> list[Word]:
    """Every word of a text in order, stop words included."""
    found: list[Word] = []
    for piece in text.split():
        found += _words_of_piece(piece)
    return found


def query_words(text: str) -> list[Word]:
    """The distinct words of a query in order, without stop words unless nothing else is left."""
    words: dict[str, Word] = {}
    for piece in text.split():
        for word in _words_of_piece(piece):
            if not word.joined or word.text not in words:
                words[word.text] = word
    return [word for word in words.values() if word.text not in STOP_WORDS] or list(words.values())


@lru_cache(maxsize=1 << 16)
def term_of(word: str) -> str:
    """The term that a folded word is indexed as: the Porter stem if it is in English letters."""
    return stem(word) if word.isascii() and word.isalpha() else word


def name_key(text: str) -> str:
    """What two spellings of one name share: its letters and digits, folded."""
    if text.isascii():
        return text.lower().encode().translate(None, _NOT_IN_NAMES).decode()
    return "".join(_NAME_CHARACTERS.findall(without_accents(text).casefold()))


def without_accents(text: str) -> str:
    """Compatibility forms composed (NFKC), and accents removed.

    Of Latin, Greek, Cyrillic, Hebrew and Arabic letters, that is. The combining classes tell those
    accents from the marks that make other letters: vowel signs of Indic scripts have class 0,
    voicing marks of kana 8, and Hangul syllables must be composed again.
    """
    decomposed = unicodedata.normalize("NFKD", text.translate(_PLAIN_LETTERS))
    return unicodedata.normalize("NFC", "".join(filter(_is_not_accent, decomposed)))


class Terms(TEXT):  # type: ignore[misc]  # Whoosh is untyped
    """A field of the terms of a text, stop words included.

    No positions are kept, nor lengths, which the impacts are computed from exactly: it is to be
    read back and not to be searched.
    """

    scorable = False

    def __init__(self) -> None:
        super().__init__(analyzer=_CHAIN, phrase=False)

    def index(self, value: str, **_: Any) -> Iterator[tuple[bytes, int, float, bytes]]:
        """Each term with its count, as such, as a weight and as a posting holds it.

        Whoosh would ask the analyser for one token after the other; pieces of text repeat, so
        their terms are remembered instead.
        """
        counts = Counter(chain.from_iterable(map(_terms_of_piece, value.split())))
        for term, count in counts.items():
            yield term, count, float(count), pack_uint(count)


class NormalisingTokenizer(RegexTokenizer):  # type: ignore[misc]  # Whoosh is untyped
    """Whoosh's tokenizer over normalised text."""

    def __call__(self, value: str, **options: Any) -> Iterator[Token]:
        """Tokens of the normalised text."""
        plain = value if value.isascii() else without_accents(value)
        tokens: Iterator[Token] = super().__call__(plain, **options)
        return tokens


class IdentifierFilter(Filter):  # type: ignore[misc]  # Whoosh is untyped
    """Cuts identifiers where their case or kind changes, and keeps them whole as well.

    YouTube is also youtube. Single letters that are left over (the o of GPT4o) say nothing by
    themselves and live on in the whole only. Runs of scripts that are written without blanks become
    pairs of adjacent characters.
    """

    def __call__(self, tokens: Iterable[Token]) -> Iterator[Token]:
        """The parts of each token, then the whole."""
        for token in tokens:
            text = token.text
            token.joined = False
            if text.isascii() and text.isalpha() and (text.islower() or text.isupper()):
                yield token
                continue
            parts = _PART.findall(text)
            kept_whole = len(parts) > 1 and not _UNSPACED.search(text)
            joined = kept_whole
            for part in parts:
                if kept_whole and len(part) == 1 and part.isascii() and part.isalpha():
                    joined = False  # the whole says what is left out here
                    continue
                if _UNSPACED.match(part) and len(part) > 1:
                    for left, right in pairwise(part):
                        token.text = left + right
                        yield token
                else:
                    token.text = part
                    yield token
            if kept_whole:
                token.text = "".join(parts)
                token.joined = joined
                yield token


class CasefoldFilter(LowercaseFilter):  # type: ignore[misc]  # Whoosh is untyped
    """Lower case in the sense of Unicode."""

    def __call__(self, tokens: Iterable[Token]) -> Iterator[Token]:
        """Each token, folded."""
        for token in tokens:
            token.text = token.text.casefold()
            yield token


# Scripts written without blanks between words: Thai, Lao, Myanmar, Khmer; kana, Han; and Hangul.
_UNSPACED_CHARACTERS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff"
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u303b"
    "\u3041-\u30ff\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
# Python's \w has no combining marks, without which words of Indic scripts fall apart.
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
_NOT_IN_NAMES = bytes(code for code in range(128) if not chr(code).isalnum())
_NAME_CHARACTERS = re.compile(rf"(?:{_WORD_CHARACTER})+")
_PLAIN_LETTERS = str.maketrans(
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
_CHAIN = NormalisingTokenizer(rf"(?:{_WORD_CHARACTER}|_)+") | IdentifierFilter() | CasefoldFilter()


def _is_not_accent(character: str) -> bool:
    combining_class = unicodedata.combining(character)
    return not (combining_class >= 200 or 10 <= combining_class <= 36)


@lru_cache(maxsize=1 << 16)
def _words_of_piece(piece: str) -> tuple[Word, ...]:
    bare = piece.strip(_PUNCTUATION)
    if bare.isascii() and bare.isalpha() and (bare.islower() or bare.istitle() or bare.isupper()):
        # What the chain would say of nine pieces in ten, without its cost.
        return (Word(bare.lower(), False),)
    return tuple(Word(token.text, token.joined) for token in _CHAIN(piece) if token.text)


@lru_cache(maxsize=1 << 16)
def _terms_of_piece(piece: str) -> tuple[bytes, ...]:
    return tuple(term_of(word.text).encode() for word in _words_of_piece(piece))
