"""The commands: each module has its own, or its group, as `commands`."""
