"""What a command does where nobody looks on: it keeps a log of bounded size, and tells somebody when it failed."""
