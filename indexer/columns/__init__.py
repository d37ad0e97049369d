"""Columns of the stored records: the values that the files of a snapshot are derived from.

May import `indexer.x402` and what is below it, and what describes a snapshot in `service`.
"""
