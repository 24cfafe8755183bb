"""Context packs: what a question needs of a project, in one text of a given size."""
