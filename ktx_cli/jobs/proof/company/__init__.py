"""A made-up company, generated from a seed: a warehouse, a dbt project, a handbook, a query history, and the truth."""
