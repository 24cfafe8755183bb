"""`ktx evolve`: repairs of the context, drafted from what went wrong and tried on questions before they land."""
