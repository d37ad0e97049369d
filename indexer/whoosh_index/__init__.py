"""The Whoosh index of a snapshot, over the names, descriptions and categories of its services.

People ask it in Whoosh's own query language. The service does not read it.
"""
