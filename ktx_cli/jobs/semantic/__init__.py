"""Jobs on the semantic layer: list and search it, check it, ask it, test it; they write nothing."""
