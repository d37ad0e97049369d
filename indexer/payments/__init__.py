"""Payments: files loaded into one DuckDB table, and the usage of services counted from it.

`database` opens the table and `load` fills it; `text_files` and `parquet` describe how DuckDB reads
one file, `columns` which columns count, and `rules` which rows are payments. `usage` counts the
payments to each service.

Imports `indexer.{errors,progress,processes,text,sources,snapshot.ecosystem}`. Without DuckDB
installed, `database` and `usage` can be imported.
"""
