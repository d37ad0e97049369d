"""Payments: files loaded into one DuckDB table, and credited to the services that they bought.

`load` fills the table: `files` copies texts, `columns` finds the columns that count, `readers` says
how DuckDB reads each format, and `rules` which rows are payments. `claims` says which endpoints ask
for payment, `credit` finds the service and the endpoint of each payment, and `demand` counts them.

The modules can be imported where DuckDB is not installed.
"""
