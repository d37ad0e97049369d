"""Descriptions of the API: OpenAPI, llms.txt, and command lines of curl."""
