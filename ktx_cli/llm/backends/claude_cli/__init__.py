"""The local Claude Code binary as a text model: `claude --print`."""
