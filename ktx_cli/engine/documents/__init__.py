"""The agents' work on documents: triage, extraction, candidates and curation."""
