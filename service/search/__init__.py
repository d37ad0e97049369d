"""Search: text to terms, terms to postings, postings to the top k; filters and facets.

May import `service.storage`, `service.errors` and `service.networks`.
"""
