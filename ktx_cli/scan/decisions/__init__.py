"""Decision points of a database: detection without a model, and the record that a scan commits."""
