"""Whether a project is ready: `ktx status`, `ktx doctor`."""
