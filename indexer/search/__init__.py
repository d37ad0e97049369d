"""Writers of postings, vectors, filters and offers, which search and filtering read."""
