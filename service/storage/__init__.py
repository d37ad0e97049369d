"""Memory-mapped structures: arrays, records, strings, hash tables.

May import `service.errors` alone.
"""
