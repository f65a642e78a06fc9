"""SQL agent: a guard, databases, an MCP server over them, the session of a run, and the agent."""
