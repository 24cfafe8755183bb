"""The prompts of a run, read once, before anything is written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ktx_cli.context.prompts import Prompt, load_prompt


@dataclass(frozen=True, slots=True)
class Prompts:
    """What the model is told about its work."""

    describe: Prompt
    propose: Prompt

    @classmethod
    def load(cls, folder: Path) -> Prompts:
        """Return the project's own where `folder` has them; `ConfigError` for one that cannot serve."""
        return cls(load_prompt("describe_tables", folder), load_prompt("propose_joins", folder))
