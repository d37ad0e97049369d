"""Resources of x402 discovery feeds, both versions, to services.

Imports `indexer.{errors,options,text,urls,sources.records}`, and of `service` only `records`,
`schema` and `networks`. `resource` reads one resource, `listing` says how it is listed,
`grouping` makes one service of the resources of a host, and `discovery` collects those of all.
"""
