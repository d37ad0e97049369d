"""Sources: from the names on the command line to records, each with its place, and rejects."""
