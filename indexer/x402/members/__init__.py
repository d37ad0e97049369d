"""Readers of the members of a resource, whichever version or document declares them.

A member that cannot be understood is skipped, since a resource is worth listing without it.
"""
