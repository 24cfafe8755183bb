"""`ktx demo`: a fictional company with a warehouse, a dbt project and a handbook, and its context."""
