"""The wiki: Markdown pages on what the numbers mean, what they refer to, and what is wrong with them."""
