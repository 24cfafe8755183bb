"""The wizard: interactive setup. Each step is tested and saved before the next, and can be revisited or resumed."""
