"""How uvicorn is run: options, workers, limits of connections.

Used by entry points alone: `python -m service`, `service.mcp` and `service.replicas`.
"""
