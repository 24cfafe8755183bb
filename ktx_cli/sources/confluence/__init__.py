"""Pages of Confluence."""
