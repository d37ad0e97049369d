"""Writing what is compiled of the derived columns: index, filters, endpoints and listings."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from indexer.assembly import BuildContext
from indexer.derive.columns import open_columns
from indexer.index.documents import NO_DOCUMENT, Documents, OtherTexts
from indexer.index.filters import write_services
from indexer.index.popularity import Popularity, popularity_of
from indexer.index.postings import Doubles, compile_postings
from indexer.index.vectors import document_vectors, write_vectors
from indexer.processes.pool import wait_for
from indexer.processes.resources import release_memory
from indexer.snapshot.endpoints import IndexedEndpoints, write_endpoints
from indexer.snapshot.listings import write_listings
from indexer.storing import StoredServices
from service.arrays.container import writing_arrays
from service.arrays.texts import write_summaries


def write_index(
    context: BuildContext, kept: Path, stored: StoredServices, encoder: Path | None
) -> int:
    """Write all files that are compiled of the columns of the stored services, at `kept`.

    Returns how many endpoints have no text of their own.
    """
    built, pool, columns = context.built, context.pool, open_columns(kept)
    popularity = popularity_of(stored.payers, stored.alive)
    indexed = write_endpoints(
        built,
        columns,
        stored.listed,
        stored.offers,
        encoder,
        payers=stored.endpoint_payers,
        alive=stored.probed.verdicts,
        delivered=stored.probed.deliveries,
    )
    release_memory()
    others = [pool.submit(_write_listing, built, kept, popularity)]
    if encoder is not None:
        others.append(pool.submit(_write_vectors, built, kept, indexed.others, indexed.documents))
    services = columns.services
    prior = _prior_of_documents(
        indexed, popularity.prior(services["enriched"], services["deprecated"])
    )
    search = context.options.ranking.search
    compile_postings(
        columns, indexed.others, indexed.documents, prior, built / "index.arrays", search
    )
    write_listings(
        built / "listings.arrays",
        columns,
        stored.named,
        stored.places,
        stored.probed.advice,
        context.findings.fates,
    )
    for each in others:
        wait_for(each)
    return int(np.count_nonzero(~columns.endpoints["has_text"]))


def _write_listing(built: Path, kept: Path, popularity: Popularity) -> None:
    """Write the summaries and filters of services."""
    columns = open_columns(kept)
    services, texts = columns.services, columns.service_runs["summary"].texts()
    with writing_arrays(built / "summaries.arrays") as writer:
        write_summaries(writer, services["start"], services["stop"], services["endpoints"], texts)
    write_services(built / "services.arrays", columns, popularity)


def _write_vectors(built: Path, kept: Path, others: OtherTexts, documents: Documents) -> None:
    vectors = document_vectors(open_columns(kept), others, documents)
    write_vectors(built / "vectors.arrays", vectors)


def _prior_of_documents(indexed: IndexedEndpoints, of_services: Doubles) -> Doubles:
    """Return the prior of each document, given those of the services."""
    documents = indexed.documents
    prior = np.zeros(len(documents.services))
    prior[: documents.endpoints[-1]] = indexed.prior
    prior[indexed.others.documents] = indexed.other_prior
    own = np.flatnonzero(documents.own != NO_DOCUMENT)
    prior[documents.own[own]] = of_services[own]
    return prior
