"""One thin file a command; each registers itself on the app it is given."""
