"""`ktx llm`: probe models, ask one question, and report usage."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final

from pydantic import RootModel

from ktx_cli.core import (
    Command,
    ConfigError,
    Emit,
    Placeholder,
    Record,
    ResultWarning,
    StorageError,
    UsageError,
    did_you_mean,
    ignore_events,
    monotonic,
)
from ktx_cli.llm import (
    DIMENSIONS,
    CallFacts,
    ProbeResult,
    UsageRow,
    Warn,
    create_embedder,
    distinct_models,
    model_for,
    no_backend,
    probe_models,
    project_runtime,
    run_async,
    schema_model,
    usage_by,
)
from ktx_cli.project import ROLES, KtxConfig, Layout, StateDatabase, load_config, read_state
from ktx_cli.runs import find_run


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A model's reply: a text or an object, and the facts about the call."""

    value: Any
    facts: CallFacts

    @property
    def shown(self) -> str:
        """The reply as text."""
        return self.value if isinstance(self.value, str) else json.dumps(self.value, indent=2, ensure_ascii=False)


def probe_project(
    project_dir: Path, environ: Mapping[str, str], *, model: str | None, warn: Warn, emit: Emit = ignore_events
) -> list[ProbeResult]:
    """Probe all configured models, or the named one. Raises `LlmError` if none is configured."""
    layout = Layout(project_dir)
    config = load_config(layout.config).config
    only = None if model is None else [model_for(config, "default", model=model)]
    if only is None and not distinct_models(config):
        raise no_backend()
    probes = probe_models(layout, config, environ, command=Command("llm", "probe"), warn=warn, only=only, emit=emit)
    probes.store(layout)
    return probes.results


def ask_project(
    project_dir: Path,
    environ: Mapping[str, str],
    *,
    question: str,
    role: str,
    model: str | None,
    system: str,
    schema: Path | None,
    warn: Warn,
    emit: Emit = ignore_events,
) -> ModelReply:
    """Ask one question, or the text on stdin for `-`. Raises `UsageError` if it is empty or the role is unknown."""
    require_role(role)
    prompt = sys.stdin.read() if question == "-" else question
    if not prompt.strip():
        raise UsageError("the question is empty", hint=Command("llm", "ask", Placeholder('"Reply with ok"')))
    layout = Layout(project_dir)
    config = load_config(layout.config).config
    output = None if schema is None else _model(schema)

    async def work() -> ModelReply:
        async with project_runtime(
            layout, config, environ, command=Command("llm", "ask"), warn=warn, emit=emit
        ) as runtime:
            if output is None:
                text = await runtime.generate_text(prompt, system=system, role=role, model=model)
                return ModelReply(text.text, text.facts)
            found = await runtime.generate_object(prompt, output, system=system, role=role, model=model)
            return ModelReply(found.value.model_dump(mode="json"), found.facts)

    return run_async(work())


def require_role(role: str) -> None:
    """Raise `UsageError` for an unknown role."""
    if role not in ROLES:
        near = did_you_mean(role, ROLES)
        raise UsageError(f"there is no role `{role}`", hint=f"did you mean `{near}`?" if near else ", ".join(ROLES))


def _model(path: Path) -> type[RootModel[Any]]:
    try:
        value = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read the schema {path}: {error.strerror}", hint="--schema FILE") from error
    except ValueError as error:
        raise UsageError(f"the schema {path} is not valid JSON: {error}", hint="--schema FILE") from error
    except RecursionError as error:
        raise UsageError(f"the schema {path} is nested too deeply", hint="use a flatter schema") from error
    if not isinstance(value, dict):
        raise UsageError(f"the schema {path} is not a JSON object", hint='for example {"type": "object"}')
    try:
        return schema_model(value)
    except ValueError as error:
        raise UsageError(f"the schema {path} is invalid: {error}", hint="see https://json-schema.org") from error


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Usage sums and the dimensions by which they are grouped."""

    dimensions: tuple[str, ...]
    since: str | None
    run: str | None
    rows: tuple[UsageRow, ...]
    warnings: tuple[ResultWarning, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the `data` of the envelope."""
        rows = [row.to_json(self.dimensions) for row in self.rows]
        return {"by": list(self.dimensions), "since": self.since, "run": self.run, "rows": rows}


def usage_report(project_dir: Path, *, by: Sequence[str], since: str | None, run: str | None = None) -> UsageReport:
    """Return the usage sums, optionally for one run. Raises `UsageError` for an invalid dimension, date or run."""
    layout = Layout(project_dir)
    load_config(layout.config)
    dimensions = tuple(dict.fromkeys(by))
    for name in dimensions:
        if name not in DIMENSIONS:
            near = did_you_mean(name, DIMENSIONS)
            hint = f"did you mean `{near}`?" if near else f"use one of: {', '.join(DIMENSIONS)}"
            raise UsageError(f"cannot group usage by `{name}`", hint=hint)
    if since is not None:
        since = _day(since)
    of = None if run is None else find_run(layout, run)[0].run_id
    older: list[ResultWarning] = []

    def read(database: StateDatabase) -> list[UsageRow]:
        return usage_by(database, dimensions, since=since or "", run=of)

    try:
        rows = read_state(layout, read, older.append) or []
    except StorageError as error:
        if error.code == "connection":  # a shared database, which may be reached again
            raise
        message = f"cannot read the recorded usage: {error.message}"
        unreadable = ResultWarning("state_unreadable", message, hint=error.hint)
        return UsageReport(dimensions, since, of, (), (unreadable,))
    return UsageReport(dimensions, since, of, tuple(rows), tuple(older))


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise UsageError(f"`{text}` is not a date", hint="use YYYY-MM-DD, for example: --since 2026-01-31") from None


TEXT: Final = "monthly revenue by region"
"""The text to embed in a probe. It contains no user data."""


@dataclass(frozen=True, slots=True)
class EmbeddingReport(Record):
    """A successful probe. `model` names backend and model; `latency_ms` includes loading."""

    model: str
    dimensions: int
    latency_ms: float


def probe_embeddings(config: KtxConfig, *, project_dir: Path, environ: Mapping[str, str]) -> EmbeddingReport | None:
    """Compute one vector as `ktx index` does. Returns None if no embeddings are configured.

    Raises the errors of `Embedder.embed` and `create_embedder`, and `ConfigError` if the length of the vector differs
    from `ingest.embeddings.dimensions`.
    """
    embedder = create_embedder(config, project_dir, environ)
    if embedder is None:
        return None
    started = monotonic()
    (vector,) = embedder.embed([TEXT])
    wanted = config.ingest.embeddings.dimensions
    if wanted is not None and len(vector) != wanted:
        message = f"{embedder.model} returns vectors with {len(vector)} dimensions, but {wanted} are configured"
        raise ConfigError(message, hint=Command("config", "set", "ingest.embeddings.dimensions", len(vector)))
    return EmbeddingReport(embedder.model, len(vector), round((monotonic() - started) * 1000, 1))
