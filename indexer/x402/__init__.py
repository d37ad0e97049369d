"""Resources of x402 discovery feeds, both versions, to services.

Imports `indexer.{errors,options,text,urls,sources.records}`, and of `service` only `records`,
`networks` and `storage`. `resource` reads one resource, and `grouping` makes services of all.
"""
