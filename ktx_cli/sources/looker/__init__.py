"""A Looker instance: looks, dashboards, explores and how they are used."""
