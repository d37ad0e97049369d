"""The MCP server: tools, resources and a prompt over the snapshot and the engine of the HTTP API.

Needs the extra `mcp`; imported only when the server is asked for.
"""
