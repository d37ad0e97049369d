"""The indexer: turns source records and payments into one immutable snapshot.

Imports run one way, in the order of the layers in `pyproject.toml`. Of `service` it imports what
describes, reads and publishes a snapshot, and in `cli` what answers a request.
"""
