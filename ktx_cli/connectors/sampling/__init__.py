"""Bounded samples of tables: one statement a table, spread over it where the engine can, the same rows every time."""

from ktx_cli.connectors.sampling.model import Sample, SampleLimits, SampleMethod
from ktx_cli.connectors.sampling.reading import read_sample

__all__ = ["Sample", "SampleLimits", "SampleMethod", "read_sample"]
