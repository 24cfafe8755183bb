"""Context sources: what is read besides databases, and what can be said of it without a model."""
