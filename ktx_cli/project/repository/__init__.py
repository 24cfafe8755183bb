"""A project's git repository: reads committed content, and adds one commit per run next to the user's own work."""
