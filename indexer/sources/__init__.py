"""Sources: from the names on the command line to records, each with its place, and their rejects.

Imports `errors`, `options`, `progress`, `text` and, where a source is a URL, `feeds`.
"""
