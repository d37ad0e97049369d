"""Writers of what `service.search` and `service.filtering` read.

May import those, `service.storage`, `service.networks`, `indexer.segments` and what is below it.
"""
