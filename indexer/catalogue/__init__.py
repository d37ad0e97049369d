"""The catalogue: records validated, normalised, given ids, amended by overlays, and ordered."""
