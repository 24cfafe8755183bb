"""A Metabase instance: cards, dashboards, collections."""
