"""The catalogue: records validated, normalised, given ids, amended by overlays, and ordered.

Imports `segments`, `columns`, `x402`, `sources` and what is below them.
"""
