"""Text to terms, terms to postings, postings to the top k; filters and facets.

May import `storage` and the modules at the root of `service` that describe records.
"""
