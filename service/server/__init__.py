"""How uvicorn is run: options, workers, limits of connections; for entry points only."""
