"""Import of dbt semantic models and metrics (MetricFlow)."""
