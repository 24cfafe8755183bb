"""`ktx demo`: a fictional company with a warehouse, a dbt project, a handbook and the context for them."""
