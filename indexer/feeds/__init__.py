"""Feeds over HTTP: client, pages, walks through them, and the cache between builds.

`reader` is the entrance. Needs the extra `indexer`.
"""
