"""Floor 1: the project on disk: `ktx.yaml`, secrets, paths, git store, workspace, state database, leases."""
