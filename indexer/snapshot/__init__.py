"""The writers of what `service` reads: index, postings, filters, records; publishing, comparing.

May import `service.search`, `service.snapshot`, `service.storage`, and the modules below the
pipeline: `indexer.errors`, `durable`, `resources`, `text` and `x402.testnets`.
"""
