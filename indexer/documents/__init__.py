"""Documents that describe paid services, as resources that are merged with those of x402 feeds.

Each format yields the same form of resource. A document may describe its own hosts only.
"""
