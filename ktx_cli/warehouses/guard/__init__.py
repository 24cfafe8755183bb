"""The guard: only statements that read pass, made of allowed parts and functions and rewritten from their tree."""
