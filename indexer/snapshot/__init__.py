"""Writers of resources, endpoints and ecosystem tables; identifying, rolling back, comparing.

May import `service.search`, `service.snapshot`, `service.storage`, `indexer.search`,
`indexer.columns`, `indexer.x402` and the modules below them.
"""
