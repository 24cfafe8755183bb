"""dbt's semantic models and metrics, in the older and the newer form of their YAML."""
