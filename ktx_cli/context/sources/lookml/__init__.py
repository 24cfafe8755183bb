"""LookML projects: what they define without a model, and the work that is left."""

from ktx_cli.context.sources.lookml.source import LookMlSource

__all__ = ["LookMlSource"]
