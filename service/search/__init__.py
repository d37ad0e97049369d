"""Search: text to terms and vectors, postings to the top k, documents to ranked services.

May import `service.storage`, `service.schema` and `service.errors`.
"""
