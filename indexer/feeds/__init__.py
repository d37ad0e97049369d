"""Feeds over HTTP: client, pages, walks through them, and the cache between builds.

Imports `indexer.{containers,errors,options,urls,text}`, and of `service` only
`publishing`, `snapshot` and `storage`. `reader` is the entrance. All of it needs the extra
`indexer`.
"""
