"""Looker, over its API: explores with the tables they read, dashboards, looks, and how much each is used."""

from ktx_cli.context.sources.looker.source import LookerSource

__all__ = ["LookerSource"]
