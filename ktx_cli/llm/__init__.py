"""Models: one port for every call, and the backends behind it."""
