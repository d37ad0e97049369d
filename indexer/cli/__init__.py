"""The command line: one module for each command, and what they print.

Imports all of the indexer, and of `service` the parser of command lines and what answers a request.
"""
