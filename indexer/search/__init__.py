"""Writers of what `service.search` reads: the Whoosh index, postings, query expansion, filters.

May import `indexer.snapshot` and what that may import.
"""
