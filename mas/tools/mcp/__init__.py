"""Sessions with MCP servers, over streamable HTTP or with a process of our own."""
