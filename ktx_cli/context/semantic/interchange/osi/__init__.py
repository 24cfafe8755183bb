"""OSI, the Open Semantic Interchange format: both ways."""
