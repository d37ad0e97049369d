"""The MCP server: tools, resources and a prompt over the snapshot and the engine of the HTTP API.

May import `service.api` and what is below it. Needs the extra `mcp`; nothing imports this package
unless the server is asked for.
"""
