"""The project behind the MCP server: its caches, runs and state."""
