"""Semantic models of other tools: dbt, LookML and OSI read into ktx's files, ktx's model written as OSI."""
