"""Replicas: fetching snapshots of another Ratecard or a bucket into an artifacts folder.

Needs the extra `replica`; a service that follows nothing does not import this package.
"""
