"""Filtering: which documents a request allows, by facets, offers and parts of URLs.

May import `service.search`, `service.storage` and `service.networks`.
"""
