"""Segments: what a build derived from the texts of services, kept for the next builds.

May import `indexer.encoder`, `indexer.x402`, `service.search`, `service.snapshot` and the modules
below the indexer's rooms.
"""
