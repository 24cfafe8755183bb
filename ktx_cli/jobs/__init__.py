"""One package for each thing that a user starts. They compose what is below and build a report."""
