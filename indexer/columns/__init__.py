"""Columns of the stored records: the values that the files of a snapshot are derived from."""
