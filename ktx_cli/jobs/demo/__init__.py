"""`ktx demo`: a made-up company with a warehouse, a dbt project and a handbook, and its context."""
