"""Payments: files loaded into one DuckDB table, and credited to the services that they bought.

`database` checks the files and opens the table, and `load` fills it: `files` counts their lines,
`columns` finds the columns that count, `readers` says how DuckDB reads each format, and `rules`
which rows are payments. `claims` says which endpoints ask for payment, and `credit` finds the
service, and the endpoint, of each payment. `demand` counts credited payments, and `figures`
computes the public figures from these counts.

`database` and `credit` can be imported where DuckDB is not installed.
"""
