"""Writers of resources, endpoints and ecosystem tables; publishing, rolling back and comparing.

May import `service.search`, `service.snapshot`, `service.storage`, `indexer.search`,
`indexer.columns`, `indexer.x402` and the modules below them.
"""
