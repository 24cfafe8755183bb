"""Floor 5: the command line. It parses, calls one function of a lower floor, and renders."""
