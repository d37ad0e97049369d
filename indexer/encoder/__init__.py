"""Encoding documents to vectors in integers, by the static encoder that the package carries."""
