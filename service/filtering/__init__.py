"""Filtering: which documents a request allows, by facets of services and offers of endpoints.

May import `service.search`, `service.storage` and `service.networks`.
"""
