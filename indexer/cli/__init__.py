"""The command line: a module for each command, and the printing of results."""
