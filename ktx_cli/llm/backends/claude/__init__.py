"""What both Claude Code backends share: finding the binary, and the environment it runs in."""
