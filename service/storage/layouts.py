"""The layouts of a snapshot's files, in one table, which readers, writers and docs/format.md share.

Generic layouts come first, then those of one file, in the order of FILES.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import NamedTuple

from service.conditions import (
    Conditions,
    EndpointConditions,
    ServiceConditions,
    TextColumn,
    conditions_of,
)
from service.storage.container import Array, Layout


def facet_arrays(name: str, documents: str) -> dict[str, Array]:
    """Return the arrays of a facet: its values, and those of each document."""
    return {
        f"{name}.values": Array(
            "|u1",
            f"{name}.bytes",
            "JSON: the values as shown, most frequent first, none without a document",
        ),
        f"{name}.numbers": Array(
            "|u1 <u2 <u4", f"{name}.items", "the numbers of the values of each, one after another"
        ),
        f"{name}.sizes": Array("|u1 <u2 <u4", documents, "how many values each has"),
    }


def filter_arrays(kind: type[Conditions], documents: str) -> dict[str, Array]:
    """Return the arrays that conditions are compared with."""
    arrays: dict[str, Array] = {}
    for _, name, column in conditions_of(kind):
        if not column.is_stored:
            continue
        if isinstance(column, TextColumn):
            arrays |= facet_arrays(name, documents)
        else:
            arrays[column.array] = Array(column.dtype, documents, column.text)
    return arrays


STRING_TABLE = Layout(
    "Distinct strings in the order of their UTF-8 bytes.",
    utf8=Array("|u1", "bytes", "the strings end to end"),
    offsets=Array("<i8", "strings+1", "the byte at which each string begins, and the end"),
    heads=Array("<u8", "strings", "the first 8 bytes of each string, which are compared first"),
)
HASH_TABLE = Layout(
    "A static hash table; the bucket of a hash is its highest bits.",
    starts=Array("<i4", "buckets+1", "the first value of each bucket, and the end"),
    values=Array("<i4", "values", "the values of the buckets"),
    tags=Array("|u1", "values", "the lowest 8 bits of the hash of each value"),
)
RECORD_STORE = Layout(
    "JSON texts by ordinal.",
    texts=Array("|u1", "bytes", "the texts, joined by commas"),
    offsets=Array("<i8", "texts+1", "the byte at which each text begins, and one more would"),
)

RECORDS = Layout(
    "The places of the services in `records.json`.",
    offsets=Array("<i8", "services+1", "the byte at which each service begins, and one more would"),
    tags=Array("<u8", "services", "the first 64 bits of the hash of each service"),
)
POSTINGS = Layout(
    "An impact list for each term.",
    postings=Array("<i8", "postings", "`document << 24 | impact`, of all terms but the dense ones"),
    offsets=Array("<i8", "terms+1", "the first posting of each term, and the end"),
    rows=Array("<i4", "terms", "the row of a term in the dense arrays, or -1"),
    impacts=Array("<u2", "dense,blocks,64", "the impact of each document, 0 without the term"),
    maxima=Array("<i4", "dense,blocks", "the largest impact of each block"),
    bits=Array("<u8", "dense,blocks", "the documents that have the term"),
    group_bits=Array("<u8", "dense,group_blocks", "the groups that have the term"),
)
LEXICON = Layout(
    "Columns of the terms and of the words.",
    document_frequencies=Array("<i4", "terms", "how many documents have each term"),
    group_frequencies=Array("<i4", "terms", "how many services have each term"),
    word_terms=Array("<i4", "words", "the term of each word"),
    letters=Array("<u8", "correct", "the letters of each word that may correct another, as bits"),
    correct=Array("<i4", "correct", "the numbers of these words, in the order of their lengths"),
    lengths=Array("<i4", "25", "where the words of each length begin among these"),
)
NAMES = Layout(
    "The services by name.",
    hashes=Array("<u8", "names", "the hashes of the folded names of services, ascending"),
    services=Array("<i4", "names", "the service of each name"),
)
GROUPS = Layout(
    "The groups of documents: those of each service.",
    penalties=Array("<u2", "services", "the size penalty of each service"),
)
ENCODER = Layout(
    "A static encoder.",
    pieces=Array("|u1", "bytes", "the word pieces, one a line"),
    rows=Array("|i1", "pieces,dimensions", "the vector of each word piece"),
    scales=Array("<i2", "pieces", "the factor of each vector"),
)
VECTORS = Layout(
    "The vectors of the documents.",
    rows=Array("|i1", "documents,dimensions", "the vectors"),
    inverse_lengths=Array("<f4", "documents", "the inverse of the length of each vector, or 0"),
    signs=Array("<u8", "words,documents", "whether each component is positive, as bits"),
)


SERVICE_FILTERS = Layout(
    "What services are filtered and ordered by.",
    **filter_arrays(ServiceConditions, "services"),
    by_popularity=Array("<u4", "services", "the services in the order of payers"),
    by_price=Array("<u4", "services", "the services in the order of prices"),
    by_name=Array("<u4", "services", "the services in the order of names"),
)
ENDPOINT_FILTERS = Layout(
    "What endpoints are filtered and ordered by.",
    **filter_arrays(EndpointConditions, "endpoints"),
    by_popularity=Array("<u4", "endpoints", "the endpoints in the order of payers"),
    by_price=Array("<u4", "endpoints", "the endpoints in the order of prices"),
)
ENDPOINTS = Layout(
    "The endpoints of all services in listing order, and the documents of the index: the "
    "endpoints, then listed resources that are no endpoint of their service, and services without "
    "either.",
    first=Array("<i8", "services+1", "the first endpoint of each service"),
    services=Array("<i4", "documents", "the service of each document"),
    resources=Array("<i4", "documents", "the listed resource of each document, or -1"),
    documents=Array("<i4", "resources", "the document of each listed resource, or -1"),
    bounds=Array(
        "<i8",
        "endpoints,2",
        "where each endpoint starts and stops in `records.json`, or (-1 - n, 0) for the n-th "
        "rewritten text",
    ),
)
PROFILES = Layout(
    "The services and the endpoints with a profile; the texts are those of the services first.",
    services=Array("<i4", "profiled_services", "their ordinals, ascending"),
    endpoints=Array("<i4", "profiled_endpoints", "their ordinals, ascending"),
)
OFFERS = Layout(
    "The ways to pay, in the order of endpoints (-1 first), then prices (NaN last).",
    network=Array("<i4", "offers", "the number of the string, or -1"),
    scheme=Array("<i4", "offers", "the same"),
    asset=Array("<i4", "offers", "the same"),
    payTo=Array("<i4", "offers", "the same"),
    currency=Array("<i4", "offers", "the same"),
    prices=Array("<f8", "offers", "the price in units of the currency, or NaN"),
    usd_prices=Array("<f8", "offers", "the price in US dollars, or NaN"),
    shadowed=Array(
        "|b1", "offers", "whether an offer is on a test network and its endpoint has others"
    ),
    endpoints=Array("<i4", "offers", "the endpoint, or -1"),
    starts=Array(
        "<i8", "offers", "where the entry of `accepts` starts in the texts of resources, or -1"
    ),
    stops=Array("<i8", "offers", "where it stops"),
    bounds=Array("<i8", "endpoints+1", "the first offer of each endpoint"),
    by_price=Array("<u4", "paid", "the offers that have an endpoint, cheapest first"),
    entries=Array("<i4", "entries", "the offer of each entry of `accepts` of the listed resources"),
)
RESOURCES = Layout(
    "What listed resources are filtered by, in the order of services, then URL, method and tool.",
    types=Array("<i4", "resources", "the number of the string, or -1"),
    entry_offsets=Array("<i8", "resources+1", "where the entries of `accepts` of each start"),
    networks=Array("<i4", "entries", "the number of the string, or -1, of each entry"),
    schemes=Array("<i4", "entries", "the same"),
    extension_offsets=Array("<i8", "resources+1", "where the keys of `extensions` of each start"),
    extensions=Array("<i4", "extensions", "their numbers"),
    tag_offsets=Array("<i8", "resources+1", "where the tags of each start"),
    tags=Array("<i4", "tags", "their numbers"),
    registration=Array("|b1", "resources", "whether each requires a registration or sign-in"),
    url_starts=Array("<i8", "resources", "where the URL of each starts"),
    urls=Array("|u1", "bytes", "the URLs in lower case, a line each"),
    alive=Array("|i1", "resources", "1 for one that is alive, -1 for a dead one, or 0"),
    beyond=Array(
        "<i4", "services", "how many resources of each service are beyond the bounds of its record"
    ),
)


LISTINGS = Layout(
    "Which sources name a URL, by hashes of URLs in normal form, hosts and payees. Rows are in the "
    "order of their hashes, then of sources. A record without a URL has "
    "the key of its position.",
    named_urls=Array(
        "<u8",
        "named",
        "the URLs of the resources that are published",
    ),
    named_sources=Array("<i4", "named", "the source of each"),
    named_services=Array("<i4", "named", "its service"),
    named_targets=Array(
        "<u8", "named", "the URL that its endpoint has: the route template, if there is one"
    ),
    named_advice=Array("<u2", "named", "advice to its seller, as bits"),
    unlisted_urls=Array("<u8", "unlisted", "the URLs of records that are not published, or noted"),
    unlisted_sources=Array("<i4", "unlisted", "the source of each"),
    unlisted_fates=Array("|u1", "unlisted", "its fate: 1 left out, 2 rejected, 3 noted"),
    unlisted_advice=Array("<u2", "unlisted", "advice to its seller, as bits"),
    unlisted_texts=Array("<i4", "unlisted", "its row in `listings/fates.arrays`"),
    endpoint_urls=Array("<u8", "urls", "the URLs of the endpoints"),
    endpoint_ordinals=Array("<i4", "urls", "the endpoint of each"),
    endpoint_advice=Array("<u2", "urls", "advice to its seller, as bits, if a record has it"),
    host_names=Array("<u8", "urls", "the hosts of the endpoints"),
    host_ordinals=Array("<i4", "urls", "the endpoint of each"),
    others=Array(
        "<u8", "others", "the hosts and the payees of the URLs that are not listed, once for each"
    ),
    other_fates=Array("|u1", "others", "the best fate of the URL, likewise"),
    record_sources=Array("<i4", "services", "the source of the record of each service, or -1"),
)


class _Entry(NamedTuple):
    """A file of a snapshot, or several whose names match a pattern.

    layout: None for a file that is no container
    """

    text: str
    layout: Layout | None = None


FILES = MappingProxyType(
    {
        "manifest.json": _Entry("format, id, times, counts, sources, and the hash of every file"),
        "decisions.json": _Entry("decisions of builds that later builds keep to"),
        "records.json": _Entry("the services in listing order, joined by commas"),
        "records.arrays": _Entry("the place and the hash of each service", RECORDS),
        "summaries.arrays": _Entry("the services with empty `endpoints`", RECORD_STORE),
        "ids.arrays": _Entry("the ids of the services", RECORD_STORE),
        "id_hashes.arrays": _Entry("from ids to services", HASH_TABLE),
        "postings/header.json": _Entry("counts, and the parameters of the search"),
        "postings/postings.arrays": _Entry("the postings", POSTINGS),
        "postings/groups.arrays": _Entry("the groups of documents", GROUPS),
        "postings/lexicon.arrays": _Entry("the columns of terms and words", LEXICON),
        "postings/names.arrays": _Entry("the names of the services", NAMES),
        "postings/terms.arrays": _Entry("the terms of the index", STRING_TABLE),
        "postings/words.arrays": _Entry("the folded words of the texts", STRING_TABLE),
        "encoder.arrays": _Entry("the encoder of queries, with vectors only", ENCODER),
        "vectors.arrays": _Entry("the vectors, unless the build has none", VECTORS),
        "filters.arrays": _Entry("facets, prices and orders of services", SERVICE_FILTERS),
        "endpoints/endpoints.arrays": _Entry("endpoints and documents of the index", ENDPOINTS),
        "endpoints/filters.arrays": _Entry(
            "facets, prices and orders of endpoints", ENDPOINT_FILTERS
        ),
        "endpoints/facts.arrays": _Entry(
            "the facts of each service beside endpoints", RECORD_STORE
        ),
        "endpoints/rewritten.arrays": _Entry(
            "endpoints without their own members `service` and `match`", RECORD_STORE
        ),
        "endpoints/urls.arrays": _Entry("from URLs to endpoints", HASH_TABLE),
        "offers/offers.arrays": _Entry("the ways to pay", OFFERS),
        "offers/strings.arrays": _Entry("their values and currencies", STRING_TABLE),
        "resources/resources.arrays": _Entry("filters of the listed resources", RESOURCES),
        "resources/strings.arrays": _Entry("their values", STRING_TABLE),
        "resources/texts.arrays": _Entry("the listed resources", RECORD_STORE),
        "listings/listings.arrays": _Entry("which sources name a URL", LISTINGS),
        "listings/fates.arrays": _Entry("why URLs are not listed", RECORD_STORE),
        "listings/sources.arrays": _Entry(
            "the public name of each source, and how many of its URLs are left out here",
            RECORD_STORE,
        ),
        "probes.arrays": _Entry(
            "what probers saw of each endpoint, empty without observations", RECORD_STORE
        ),
        "profiles.arrays": _Entry("the owners of the profiles", PROFILES),
        "profile_texts.arrays": _Entry("what the operator says of them", RECORD_STORE),
        "demand.arrays": _Entry(
            "the demand of each service, then of none, and the services with most payments",
            RECORD_STORE,
        ),
        "ecosystem.arrays": _Entry(
            "the number of rows of each ecosystem table, then their rows", RECORD_STORE
        ),
    }
)
"""The files by the patterns of their paths."""
