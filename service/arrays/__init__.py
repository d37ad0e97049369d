"""Memory-mapped structures: plain arrays, texts by ordinal, sorted strings."""
