"""Deriving: what a record yields for the files of a snapshot, kept by hash for the next build."""
