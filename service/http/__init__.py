"""Parts that every response has: headers, caching, compression, metrics and logs."""
