"""The catalogue: records validated, normalised, given ids, amended by overlays, and ordered.

Imports `columns`, `sources`, `urls`, `text` and `errors`, and the test networks of `x402`.
"""
