"""The wizard: setup by questions, each step tried and saved before the next; it goes back, and on after a stop."""
