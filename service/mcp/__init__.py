"""The MCP server: the snapshot and the searches of the HTTP API as tools; needs the extra `mcp`."""
