"""Postings of endpoints: of their own texts, and of the texts of their services.

The own texts need no Whoosh index: nothing but the compiled postings is kept of them.
"""

from __future__ import annotations

from array import array
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
from msgspec import Raw, Struct

from indexer.encoder.encoding import open_text_encoder
from indexer.search.whoosh_index import FieldPostings, Part
from indexer.words import LONGEST_CACHED, words_of_piece
from indexer.x402.untrusted import NULL, string_of
from service.search.analysis import term_of

SERVICE_FIELDS = {
    "name": "service_name",
    "description": "service_description",
    "category": "category",
}
"""Fields of services, and what they are called as fields of their endpoints."""


class ParameterText(Struct):
    """The part of a parameter that is searched."""

    name: str


class EndpointText(Struct):
    """The part of an endpoint that is searched."""

    url: str
    description: str = ""
    parameters: list[ParameterText] = []
    tags: list[str] = []
    tool: Raw = NULL

    @property
    def path(self) -> str:
        """The path of the URL as words, and the tool of an MCP server."""
        before, scheme, address = self.url.partition("://")
        path = (address if scheme else before).partition("/")[2].partition("?")[0]
        words = unquote(path).replace("/", " ")
        return words if self.tool is NULL else f"{words} {string_of(self.tool)}"


class EndpointAnalyser:
    """Analyses the texts of endpoints in their order, to the postings of their fields.

    Their paths and descriptions are encoded by the `Encoder` of a folder, if one is given.
    """

    def __init__(self, encoder: Path | None = None) -> None:
        self._encoder = None if encoder is None else open_text_encoder(encoder)
        self._terms = _TermNumbers()
        self._fields = {name: _Tokens() for name in ("path", "description", "parameters", "tags")}
        self._count = 0

    def add(self, endpoint: EndpointText) -> None:
        """Analyse the next endpoint."""
        self._count += 1
        contents = (
            endpoint.path,
            endpoint.description,
            " ".join([parameter.name for parameter in endpoint.parameters]),
            " ".join(endpoint.tags),
        )
        for tokens, content in zip(self._fields.values(), contents, strict=True):
            tokens.add(self._terms, content)
        if self._encoder is not None:
            self._encoder.add(endpoint.path, endpoint.description)

    def part(self, start: int = 0) -> Part:
        """Return the postings; the first endpoint has the ordinal `start`."""
        terms = sorted((term, number) for number, term in enumerate(self._terms.terms))
        ranks = np.empty(len(terms), np.int64)
        ranks[[number for _, number in terms]] = np.arange(len(terms))
        ordered = [term for term, _ in terms]
        fields = {
            name: tokens.postings(ordered, ranks, self._count)
            for name, tokens in self._fields.items()
        }
        vectors = None if self._encoder is None else self._encoder.encoded()
        return Part(start, fields, self._terms.vocabulary, vectors)


def expand_to_endpoints(part: Part, first_endpoints: npt.NDArray[np.int64]) -> Part:
    """Return the postings of services as those of their endpoints.

    `first_endpoints`, int64[services + 1], has the ordinal of the first endpoint of each service of
    the listing.
    """
    own = first_endpoints[part.start :]
    fields = {
        endpoint_field: _expand(part.fields[field], own - own[0])
        for field, endpoint_field in SERVICE_FIELDS.items()
    }
    return Part(int(own[0]), fields, {})


class _TermNumbers(dict[str, tuple[int, ...]]):
    """Numbers of the terms of a piece of text, in the order in which they came first."""

    def __init__(self) -> None:
        self.terms: list[bytes] = []
        self.vocabulary: dict[str, str] = {}
        self._numbers: dict[str, int] = {}

    def __missing__(self, piece: str) -> tuple[int, ...]:
        numbers = []
        for word in words_of_piece(piece):
            term = self.vocabulary.get(word.text)
            if term is None:
                term = self.vocabulary[word.text] = term_of(word.text)
            number = self._numbers.setdefault(term, len(self.terms))
            if number == len(self.terms):
                self.terms.append(term.encode())
            numbers.append(number)
        if len(piece) <= LONGEST_CACHED:
            self[piece] = tuple(numbers)
        return tuple(numbers)


class _Tokens:
    """The tokens of one field: term numbers end to end, and their count in each document."""

    def __init__(self) -> None:
        self._numbers = array("i")
        self._counts = array("i")

    def add(self, terms: _TermNumbers, content: str) -> None:
        before = len(self._numbers)
        for piece in content.split():
            self._numbers.extend(terms[piece])
        self._counts.append(len(self._numbers) - before)

    def postings(
        self, terms: list[bytes], ranks: npt.NDArray[np.int64], documents: int
    ) -> FieldPostings:
        """Return the postings; `ranks` has the place of each term number in `terms`."""
        keys = ranks[np.asarray(self._numbers, np.int32)] * documents
        keys += np.repeat(np.arange(documents), np.asarray(self._counts, np.int32))
        keys.sort()
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        counts = np.diff(starts, append=len(keys))
        owners, ordinals = np.divmod(keys[starts], max(documents, 1))
        sizes = np.bincount(owners, minlength=len(terms))
        present = np.flatnonzero(sizes)
        return FieldPostings(
            [terms[rank] for rank in present.tolist()],
            sizes[present],
            ordinals.astype(np.int32),
            counts.astype(np.float32),
        )


def _expand(field: FieldPostings, first_endpoints: npt.NDArray[np.int64]) -> FieldPostings:
    endpoints = np.diff(first_endpoints)[field.documents]
    ends = np.cumsum(endpoints)
    offsets = first_endpoints[field.documents] - (ends - endpoints)
    documents = np.arange(ends[-1] if len(ends) else 0) + np.repeat(offsets, endpoints)
    bounds = np.concatenate(([0], ends))[np.concatenate(([0], np.cumsum(field.sizes)))]
    sizes = np.diff(bounds)
    present = np.flatnonzero(sizes)
    return FieldPostings(
        [field.terms[number] for number in present.tolist()],
        sizes[present],
        documents.astype(np.int32),
        np.repeat(field.counts, endpoints),
    )
