"""Model calls as jobs make them: the runtime of a project, probes, what calls took."""
