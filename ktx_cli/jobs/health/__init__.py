"""`ktx status` and `ktx doctor` say whether a project is ready."""
