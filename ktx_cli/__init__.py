"""ktx: the context layer for data agents."""

__version__ = "0.1.0"
