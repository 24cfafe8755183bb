"""The git repository of a project: reads committed content, and adds one commit per run next to the user's own work."""
