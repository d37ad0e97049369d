"""The artifacts folder: what is served, kept, changed between, downloaded and followed.

May import `service.snapshot` and what that may.
"""
