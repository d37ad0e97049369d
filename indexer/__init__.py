"""The indexer: turns source records and payments into one immutable snapshot."""
