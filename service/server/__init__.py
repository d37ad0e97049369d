"""How uvicorn is run: options, workers, limits of connections.

Used by `service.__main__` alone.
"""
