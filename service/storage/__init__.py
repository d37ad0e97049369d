"""Memory-mapped structures: plain arrays, hash tables, sorted strings, JSON records."""
