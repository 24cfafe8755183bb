"""`ktx.yaml`: one model for the run time, the JSON Schema, the reference and `ktx config`."""
