"""Load the model from its files: the manifest, overlays and the user's own sources."""
