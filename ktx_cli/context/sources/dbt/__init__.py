"""dbt projects: what they say of tables without a model, and the work that is left."""
