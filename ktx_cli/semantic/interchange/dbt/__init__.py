"""Semantic models and metrics of dbt (MetricFlow)."""
