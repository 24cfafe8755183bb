"""Code that both Claude Code backends share: finding the binary and preparing its environment."""
