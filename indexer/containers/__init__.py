"""JSON texts that hold a list: JSON lines, an array, or an envelope with pagination.

`container` is the entrance, for files and for responses alike; `documents` recognises texts that
are one document instead.
"""
