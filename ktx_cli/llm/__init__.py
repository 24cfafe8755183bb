"""Language models: one port for every call, and the backends behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktx_cli.faces import lazy

if TYPE_CHECKING:
    from ktx_cli.llm.agent_loop import OBJECT_ATTEMPTS, REPAIR_PROMPT, CallSpec, StoredStep, taken_by
    from ktx_cli.llm.backends.anthropic_api import VERCEL_URL
    from ktx_cli.llm.backends.anthropic_api.backend import missing_google_auth
    from ktx_cli.llm.backends.claude.binary import claude_host, find_claude, secret_names
    from ktx_cli.llm.backends.claude.launcher import dropped_names
    from ktx_cli.llm.backends.claude.session import managed_error, managed_files
    from ktx_cli.llm.backends.codex.backend import codex_host
    from ktx_cli.llm.backends.codex.binary import find_codex
    from ktx_cli.llm.backends.codex.isolation import machine_settings
    from ktx_cli.llm.embeddings import (
        DEFAULT_MODELS,
        Embedder,
        StatesLength,
        create_embedder,
        missing_package,
        model_folder,
    )
    from ktx_cli.llm.errors import CallNames, LlmError, ToolError, llm_error
    from ktx_cli.llm.executor import Message, RunFinal, RunHandle, RunRequest, settled
    from ktx_cli.llm.governor import Governor
    from ktx_cli.llm.port import Abort, LlmRuntime
    from ktx_cli.llm.probe import (
        LastProbe,
        ProbeResult,
        ProbeRun,
        Warn,
        credentials_of,
        forget_probes,
        last_probes,
        probe_models,
        probe_through,
        project_runtime,
        run_async,
        to_probe,
    )
    from ktx_cli.llm.registry import BackendKind, backend_kinds, find_kind, kind_of, local_session, missing_client
    from ktx_cli.llm.routing import PROBE_PROMPT, RoutedRuntime, create_runtime
    from ktx_cli.llm.schemas import schema_model
    from ktx_cli.llm.settings import (
        NO_BACKEND,
        ModelRef,
        bindings,
        distinct_models,
        divergence,
        effort_of,
        missing_setting,
        model_for,
        no_backend,
        parse_model_ref,
        require_runnable,
        resolved_keys,
        resolved_place,
    )
    from ktx_cli.llm.tools import FAILED_CALL, MAX_RESULT, RuntimeTool, ToolOutput, check_tools
    from ktx_cli.llm.types import (
        BETWEEN_PARTS,
        CallFacts,
        Cost,
        Done,
        EmitLlm,
        LoopResult,
        ObjectResult,
        ProbeReport,
        PromptPart,
        PromptText,
        Resumed,
        Step,
        TextDelta,
        TextResult,
        ToolInvocation,
        Usage,
        UsageReported,
        parts_of,
    )
    from ktx_cli.llm.usage import DIMENSIONS, PRICES, UsageFact, UsageRow, UsageSink, record_usage, usage_by

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__)
