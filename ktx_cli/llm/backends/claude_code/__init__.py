"""The local Claude Code session, through `claude-agent-sdk`."""
