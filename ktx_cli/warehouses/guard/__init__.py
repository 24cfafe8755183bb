"""The guard: only read-only statements pass, built from allowed parts and functions and rewritten from their tree."""
