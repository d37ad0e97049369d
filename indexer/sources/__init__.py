"""Sources: from the names on the command line to records, each with its place, and their rejects.

Imports `feeds`, `options`, `progress`, `text` and `errors`.
"""
