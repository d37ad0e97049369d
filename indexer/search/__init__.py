"""Writers of what `service.search` and `service.filtering` read.

May import those, `indexer.encoder`, `indexer.columns`, `service.storage`, `indexer.x402` and the
modules below it.
"""
