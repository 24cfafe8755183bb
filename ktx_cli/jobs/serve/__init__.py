"""The project behind the MCP server: its caches, its runs and its state."""
