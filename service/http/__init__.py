"""What every response has: headers, caching, compression, metrics and logs.

May import `snapshot` and what is below it.
"""
