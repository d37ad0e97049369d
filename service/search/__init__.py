"""Search: text to terms and vectors, terms to postings, postings to the top k.

May import `service.storage`, `service.records` and `service.errors`.
"""
