"""The server agents talk to: tools, resources and prompts over stdio and HTTP; what they do is on the floors below."""
