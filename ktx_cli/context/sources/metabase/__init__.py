"""Metabase: its cards with the SQL they run, collections, and what it says of tables."""

from ktx_cli.context.sources.metabase.source import MetabaseSource

__all__ = ["MetabaseSource"]
