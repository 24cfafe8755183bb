"""How deep a scan looks: at the structure, at the rows too, or also with descriptions."""

from __future__ import annotations

from enum import StrEnum

from ktx_cli.core.errors import ResultWarning, UsageError
from ktx_cli.llm.roles import bindings, no_backend
from ktx_cli.project.config import KtxConfig


class Depth(StrEnum):
    """How deep a scan looks."""

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
            hint="ktx config set scan.enrichment.mode deterministic",
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
    """Return what to say where a model is to write descriptions and none is configured; None: nothing."""
    if config.scan.enrichment.mode != "llm" or bindings(config):
        return None
    return ResultWarning(
        "not_enriched",
        "nothing is described: scan.enrichment.mode is `llm` and no LLM backend is configured",
        hint="ktx setup --llm-backend claude-code; by rules instead: ktx config set scan.enrichment.mode deterministic",
    )
