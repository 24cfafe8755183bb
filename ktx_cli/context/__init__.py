"""Floor 3: what a context layer is made of."""
