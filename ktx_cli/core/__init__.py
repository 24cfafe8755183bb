"""Floor 0: what every other floor uses and what imports nothing of ours."""
