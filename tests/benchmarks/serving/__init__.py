"""Requests a second and their times, beside peers."""
