"""Work units of a run: agent loops on overlays of their own, kept when finished, merged in order."""
