"""The seam of engines: a request, its answer, and the methods of an engine.

Nothing below a request is shared: an engine analyses the query, matches, filters, ranks, pages and
counts facets with its own means. Lists without a query need no engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from service.conditions import EndpointFilters, Filters, ResourceFilters
from service.filtering.table import FacetCounts
from service.schema.responses import Explanation

NOTHING_FITS = (
    "no listing matches well; name the capability as its seller would, "
    "such as geocoding, OCR or KYC"
)

F = TypeVar("F", Filters, EndpointFilters, ResourceFilters)


class Search(Struct, Generic[F], frozen=True):
    """A request for one page of what matches a query.

    query: plain text, of which any word suffices; parsed by the engine
    filters: the conditions, the order, the facets to count, the limit for each service, `match`
        and what to add to the page
    """

    query: str
    filters: F
    limit: int = 24
    offset: int = 0


class Answer(Struct, frozen=True):
    """One page in order.

    Few matches of an unfiltered ranking by relevance are filled up with similar rows, which are in
    no facet.

    total: the exact count of matches and similar rows
    ordinals: of the services, endpoints or listed resources of the page
    similar: the count of similar rows
    listed: the count of endpoints that the limit for each service leaves, over which pages run;
        else `total`
    facets: the counts of the facets that were asked for, over all matches
    best_endpoints: of each service of the page the endpoint that matches best, None where its own
        text does; on request
    explanations: of the rows of the page, on request; their `endpoint` is left empty
    fit: of the first row of a ranking by relevance, by the threshold of the snapshot, 0 where there
        is none: below 1 nothing matches well. None beyond the first page, in another order, for a
        query without meaning, and where the catalogue is too small for a threshold
    similar_rows: the positions of the similar rows on the page
    """

    total: int
    ordinals: Sequence[int]
    listed: int
    similar: int = 0
    facets: FacetCounts | None = None
    best_endpoints: Sequence[int | None] = ()
    explanations: list[Explanation] | None = None
    fit: float | None = None
    similar_rows: Sequence[int] = ()

    @property
    def matches(self) -> int:
        """The exact count of matches."""
        return self.total - self.similar

    @property
    def warning(self) -> str | None:
        """The sentence for a page whose first row does not fit."""
        return NOTHING_FITS if self.fit is not None and self.fit < 1 else None

    @property
    def note(self) -> str:
        """The text that follows a total: the counts of matches and similar rows, and the fit."""
        matches = f"{self.matches:,} match{'es' * (self.matches != 1)}"
        counts = f": {matches}, {self.similar:,} similar" if self.similar else ""
        return counts if self.fit is None else f"{counts}; fit {self.fit}"

    @property
    def facts(self) -> dict[str, Any]:
        """The members of a page beside its rows."""
        return {"similar": self.similar, "fit": self.fit, "warning": self.warning}


class Engine(Protocol):
    """Searches one snapshot.

    Every method raises EngineUnavailable where an answer would be late or not whole, and
    Overloaded where too many searches wait.
    """

    async def search_services(self, search: Search[Filters]) -> Answer:
        """Return one page of services, each ranked by the best of its documents."""

    async def search_endpoints(self, search: Search[EndpointFilters]) -> Answer:
        """Return one page of endpoints."""

    async def search_resources(self, search: Search[ResourceFilters]) -> Answer:
        """Return one page of listed resources."""

    async def check(self) -> None:
        """Raise EngineUnavailable unless searches can be answered."""
