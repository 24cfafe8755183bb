"""The MCP server for agents: tools, resources and prompts over stdio and HTTP, implemented by the layers below."""
