"""The commands: options, reports, tables and progress."""
