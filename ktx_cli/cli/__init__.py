"""The command line: it parses arguments, calls one function of a lower package, and renders the result."""
