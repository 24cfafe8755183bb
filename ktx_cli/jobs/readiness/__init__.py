"""One list of checks, used by setup, status and doctor."""
