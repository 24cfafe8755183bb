"""Checking the definitions of a semantic layer for what is wrong in themselves; see `check_model`."""

from ktx_cli.context.semantic.checking.check import check_model

__all__ = ["check_model"]
