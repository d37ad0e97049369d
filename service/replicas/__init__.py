"""Replicas: fetching what another Ratecard or a bucket publishes into an artifacts folder.

Needs the extra `replica`. Nothing of it is imported by a service that follows nothing.
"""
