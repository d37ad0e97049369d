"""Origins that replicas follow: buckets, folders, servers that fail."""
