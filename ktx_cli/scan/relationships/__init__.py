"""Which columns refer to which keys, and how sure that is."""
