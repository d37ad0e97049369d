"""Payments: files loaded into one DuckDB table, and credited to the services that they bought.

`database` checks the files and opens the table, and `load` fills it; `text_files` and `parquet`
describe how DuckDB reads one file, `columns` which columns count, `rules` which rows are payments,
and `exclusions` which payments are no dollars or duplicates. `claims` says which endpoints ask for
payment, and `credit` finds the service, and the endpoint, of each payment. `demand`
counts the shape of credited payments, `cycles` finds money that returns to its payer, and `figures`
computes the public figures from these counts.

`database` and `credit` can be imported where DuckDB is not installed.
"""
