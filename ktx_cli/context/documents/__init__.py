"""Documents people wrote: read as Markdown, cut into chunks that can be cited, sorted by what they are worth."""
