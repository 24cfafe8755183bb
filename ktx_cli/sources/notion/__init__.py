"""Pages and databases of Notion."""
