"""Writers of what `service.search` reads: the Whoosh index, postings, query expansion, filters.

May import `service.search`, `service.storage`, `indexer.x402` and the modules below it.
"""
