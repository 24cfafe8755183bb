"""What changed in the databases under the definitions."""
