"""Resources of x402 discovery feeds, both versions, to services.

`resource` reads one resource by the readers in `members`, `rules` judges it, `listing` says how it
is listed, `merging` merges the resources of several sources, `grouping` makes one service of the
resources of a host, and `discovery` collects the resources of all sources.
"""
