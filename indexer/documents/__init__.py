"""Documents that describe paid services, as resources that are merged with those of x402 feeds.

The resources of all formats have one form, and a document describes its own hosts alone.
"""
