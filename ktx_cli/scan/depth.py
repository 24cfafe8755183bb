"""The depth of a scan: the structure alone, the rows too, or also descriptions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from ktx_cli.core import Command, Hint, ResultWarning, UsageError
from ktx_cli.llm import bindings, no_backend
from ktx_cli.project import KtxConfig

if TYPE_CHECKING:
    from ktx_cli.prompts import Prompt


class Depth(StrEnum):
    """How deep a scan goes."""

    STRUCTURAL = "structural"
    PROFILE = "profile"
    ENRICHED = "enriched"


def choose_depth(config: KtxConfig, wanted: Depth | None, *, no_llm: bool) -> Depth:
    """Return the depth of a run: the wanted one, else `enriched` where `scan.enrichment.mode` and the backend allow it.

    Raises `UsageError` for a depth that nothing in the configuration can serve, `LlmError` (`no_backend`) for one that
    needs a model where none is configured.
    """
    mode = config.scan.enrichment.mode
    has_model = mode == "llm" and bool(bindings(config)) and not no_llm
    if wanted is None:
        return Depth.ENRICHED if mode == "deterministic" or has_model else Depth.PROFILE
    if wanted is Depth.ENRICHED and mode == "none":
        raise UsageError(
            "--depth enriched has nobody to write descriptions: scan.enrichment.mode is `none`",
            hint=Command("config", "set", "scan.enrichment.mode", "deterministic"),
        )
    if wanted is Depth.ENRICHED and mode == "llm" and not has_model:
        if no_llm:
            raise UsageError("--depth enriched asks the model, and --no-llm forbids it", hint="leave one of them out")
        raise no_backend()
    return wanted


def needs_model(config: KtxConfig, depth: Depth, *, no_llm: bool) -> bool:
    """Whether a scan of this depth asks the model."""
    return depth is Depth.ENRICHED and config.scan.enrichment.mode == "llm" and not no_llm


def not_enriched(config: KtxConfig) -> ResultWarning | None:
    """Return a warning where a model is to write descriptions and none is configured."""
    if config.scan.enrichment.mode != "llm" or bindings(config):
        return None
    return ResultWarning(
        "not_enriched",
        "nothing is described: scan.enrichment.mode is `llm` and no LLM backend is configured",
        hint=Hint(
            "{}; by rules instead: {}",
            Command("setup", "--llm-backend", "claude-code"),
            Command("config", "set", "scan.enrichment.mode", "deterministic"),
        ),
    )


@dataclass(frozen=True, slots=True)
class ScanPrompts:
    """The prompts of a scan."""

    describe: Prompt
    propose: Prompt

    @classmethod
    def load(cls, folder: Path) -> ScanPrompts:
        """Return the project's own where `folder` has them; `ConfigError` for one that cannot serve."""
        from ktx_cli.prompts import load_prompt

        return cls(load_prompt("describe_tables", folder), load_prompt("propose_joins", folder))
