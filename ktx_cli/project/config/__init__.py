"""`ktx.yaml`: one model shared by the runtime, the JSON Schema, the reference pages and `ktx config`."""
