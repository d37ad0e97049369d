"""What every response has: headers, caching, compression, metrics and logs.

May import `artifacts` and what is below it.
"""
