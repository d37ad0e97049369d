"""Writers of records, resources and ecosystem tables; publishing, rolling back and comparing.

May import `service.search`, `service.snapshot`, `service.storage`, and the modules below the
pipeline: `indexer.errors`, `durable`, `resources`, `text` and `x402`.
"""
