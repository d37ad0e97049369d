"""Records validated, normalised, identified, overlaid and ordered."""
