"""Import and export the Open Semantic Interchange (OSI) format."""
