"""What runs left: their events, the transcripts of their agents, their reports; kept while they happen, shown after."""
