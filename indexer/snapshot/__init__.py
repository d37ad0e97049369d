"""Writers of resources, endpoints and ecosystem tables; identifying, rolling back, comparing.

May import `indexer.publishing`, `indexer.search` and what is below them, and what describes, reads
and publishes a snapshot in `service`.
"""
