"""Agent clients: an entry for this project's MCP server in their configuration, and skills; all of it can go again."""
