"""Loading the postings of a snapshot into an OpenSearch cluster; needs the extra `opensearch`.

May import `indexer.options`, `indexer.progress` and `service.opensearch`, below all that builds.
"""
