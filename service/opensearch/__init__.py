"""Searching in an OpenSearch cluster that holds the postings of a snapshot; needs an extra.

May import `service.snapshot`, `service.filtering`, `service.search` and `service.errors`.
"""
