"""Sources: from the names on the command line to records, each with its place, and their rejects.

Imports `feeds`, `processes`, `options`, `progress`, `text` and `errors`.
"""
