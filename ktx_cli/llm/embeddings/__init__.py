"""Vectors of texts for search by meaning: one port, a backend a module; nothing is ever downloaded."""

from ktx_cli.llm.embeddings.factory import create_embedder
from ktx_cli.llm.embeddings.port import Embedder

__all__ = ["Embedder", "create_embedder"]
