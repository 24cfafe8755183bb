"""Context packs: the parts of a project that a question needs, in one text of a given size."""
