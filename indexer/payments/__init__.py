"""Payments: files loaded into one DuckDB table, and credited to the services that they bought.

`database` checks the files and opens the table, and `load` fills it; `text_files` and `parquet`
describe how DuckDB reads one file, `columns` which columns count, `rules` which rows are payments,
and `exclusions` which payments are no dollars or duplicates. `claims` says which endpoints ask for
payment, and `credit` finds the service, and the endpoint, of each payment.

Imports `indexer.{errors,progress,processes,text,urls,sources,snapshot.ecosystem,x402}` and
`service.{networks,records}`. Without DuckDB installed, `database` and `credit` can be imported.
"""
