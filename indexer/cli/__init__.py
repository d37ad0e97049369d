"""The command line: the commands, and the printing of results."""
