"""Intake: sources to texts, and texts to items.

`records` reads one file, `fetch` needs the extra `indexer`.
"""
