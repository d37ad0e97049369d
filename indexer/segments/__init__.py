"""Segments: what a build derived from the texts of services, kept for the next builds.

May import `indexer.encoder`, `indexer.columns`, `indexer.x402` and what is below them,
`service.search`, `service.snapshot` and `service.errors`.
"""
