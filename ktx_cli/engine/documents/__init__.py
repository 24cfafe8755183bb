"""The work of agents on documents: triage, extraction, candidates, curation."""
