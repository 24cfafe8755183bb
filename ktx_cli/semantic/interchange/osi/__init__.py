"""Import and export of the Open Semantic Interchange (OSI) format."""
