"""Floor 4: the jobs a person or a cron job starts; they compose the rooms of floor 3."""
