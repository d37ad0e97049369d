"""Search: text to terms and vectors, postings to the top k, documents to ranked services."""
