"""The engine that searches an OpenSearch cluster; needs the extra `opensearch`."""
