"""From a database's structure to the manifest of the semantic layer, without a model."""
