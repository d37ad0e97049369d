"""The fields of the Whoosh index, and queries in the language of Whoosh."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from whoosh.fields import ID, FieldType, Schema
from whoosh.formats import Existence
from whoosh.qparser import FieldsPlugin, MultifieldParser
from whoosh.query import NullQuery, Phrase, Query

from indexer.errors import Misuse
from indexer.text import shorten
from service.search.analysis import name_key, term_of, words_of

FIELDS = ("name", "description", "category")
"""The fields that are analysed; a word without a field is searched in all of them."""

_BETWEEN_WILDCARDS = re.compile(r"[^*?]+")
_INCOMPLETE = re.compile(r"(?:^|\()\s*(AND|OR)\b|\b(AND|OR|NOT)\s*(?:\)|$)|\b(\w+:)(?=[\s)]|$)")


class TermsField(FieldType):  # type: ignore[misc]  # Whoosh is untyped
    """A field of terms as the service indexes them, stop words included, without positions.

    The weight of a posting is the frequency of the term.
    """

    def __init__(self) -> None:
        super().__init__(format=Existence(), analyzer=None, scorable=True)

    def index(
        self, value: Mapping[bytes, int], **_: Any
    ) -> Iterator[tuple[bytes, int, float, bytes]]:
        """Yield each term with its frequency, its weight, and the value of its posting (none).

        `value` holds the counts of the terms: the text was analysed before.
        """
        for term, count in value.items():
            yield term, count, float(count), b""

    def process_text(self, qstring: str, *_: Any, tokenize: bool = True, **__: Any) -> list[str]:
        """Return the terms of a part of a query; a pattern, not tokenised, is only folded."""
        if not tokenize:
            return [_BETWEEN_WILDCARDS.sub(lambda text: name_key(text[0]), qstring)]
        return [term_of(word.text) for word in words_of(qstring) if not word.redundant]


SCHEMA = Schema(id=ID(unique=True, stored=True), **{field: TermsField() for field in FIELDS})


def parse_query(text: str) -> Query:
    """Parse a query in the language of Whoosh; raises Misuse for what the index cannot answer."""
    if fault := _find_fault(text):
        raise Misuse(f"{shorten(text)!r} is no query: {fault}")
    parser = MultifieldParser(FIELDS, SCHEMA)
    parser.replace_plugin(FieldsPlugin(remove_unknown=False))
    try:
        query = parser.parse(text)
        leaves = [] if query == NullQuery else list(query.leaves())
    except Exception as error:  # the parsers of the distributions raise any where a text is odd
        raise Misuse(f"{shorten(text)!r} is no query: {error}") from error
    if not leaves:
        raise Misuse(f"{shorten(text)!r} is no query: it has no words")
    for leaf in leaves:
        if isinstance(leaf, Phrase):
            raise Misuse(
                f"{shorten(text)!r}: the index has no positions for its phrase; write the words "
                "without double quotes"
            )
        field = leaf.field()
        if field is not None and field not in SCHEMA:
            raise Misuse(
                f"the index has no field {shorten(field)!r}; its fields are "
                f"{', '.join(SCHEMA.names())}"
            )
    return query


def _find_fault(text: str) -> str:
    """Return why a query is incomplete: Whoosh would search for its operators as words."""
    if text.count("(") != text.count(")"):
        return "a parenthesis is missing"
    if text.count('"') % 2:
        return "a double quote is missing"
    if operator := _INCOMPLETE.search(text):
        return f"a word is missing beside {operator[operator.lastindex or 0]}"
    return ""
