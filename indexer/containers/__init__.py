"""JSON texts that hold a list: JSON lines, an array, or an envelope with pagination.

Imports `indexer.text`. `container` is the entrance, for files and for responses alike.
"""
