"""Searches within one process, beside other engines."""
