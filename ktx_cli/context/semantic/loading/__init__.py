"""Reading the semantic layer's files: manifest shards, sources of people's own, overlays; see `load_model`."""

from ktx_cli.context.semantic.loading.load import load_model, load_tree, read_source

__all__ = ["load_model", "load_tree", "read_source"]
