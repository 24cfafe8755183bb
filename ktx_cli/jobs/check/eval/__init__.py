"""Questions with known answers, asked and compared."""
