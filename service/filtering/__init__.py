"""Filtering: masks of the documents that a request allows, by facets, offers and URLs."""
