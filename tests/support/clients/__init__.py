"""Clients of the service: browsers, published packages, mirrors, terminals."""
