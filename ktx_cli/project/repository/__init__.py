"""The git store of a project: committed contents to read, and one commit a run, made beside the user's own work."""
