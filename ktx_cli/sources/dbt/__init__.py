"""dbt projects: models, tests, descriptions, joins."""
