"""Loading the postings of a snapshot into an OpenSearch cluster; needs the extra `opensearch`."""
