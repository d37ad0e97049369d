"""Payment files to DuckDB, and from there to usage."""
