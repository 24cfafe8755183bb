"""`ktx evolve`: context repairs, drafted from failures and tried on questions before they land."""
