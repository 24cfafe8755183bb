"""Import dbt semantic models and metrics (MetricFlow)."""
