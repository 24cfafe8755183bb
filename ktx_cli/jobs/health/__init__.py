"""`ktx status` and `ktx doctor`: whether a project is ready to use."""
