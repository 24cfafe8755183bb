"""What the MCP server answers from: one project, held open."""
