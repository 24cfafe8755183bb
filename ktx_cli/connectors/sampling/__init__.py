"""Bounded samples of tables: one statement for a small table, rows from all over a large one where the engine can."""

from ktx_cli.connectors.sampling.collations import exact_texts
from ktx_cli.connectors.sampling.model import Sample, SampleLimits, SampleMethod
from ktx_cli.connectors.sampling.reading import read_sample, why

__all__ = ["Sample", "SampleLimits", "SampleMethod", "exact_texts", "read_sample", "why"]
