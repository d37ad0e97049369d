"""Feeds over HTTP: client, pages, walks through them, and the cache between builds.

Imports `indexer.{errors,options,urls,durable,text}`, and of `service` only `snapshot`
and `storage`. `reader` is the entrance. All of it needs the extra `indexer`.
"""
