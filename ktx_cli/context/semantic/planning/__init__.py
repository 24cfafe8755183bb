"""What a question needs: facts, their aggregates, the paths to dimensions, and where each condition holds."""
