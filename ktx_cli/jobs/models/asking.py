"""`ktx llm`: one probe or one question, through the port."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import RootModel

from ktx_cli.core.errors import UsageError
from ktx_cli.core.events import Emit, ignore_events
from ktx_cli.core.text import did_you_mean
from ktx_cli.jobs.models.probing import ProbeResult, distinct_models, probe_models
from ktx_cli.jobs.models.session import Warn, project_runtime, run_async
from ktx_cli.llm.roles import model_for, no_backend
from ktx_cli.llm.schemas import schema_model
from ktx_cli.llm.types import CallFacts
from ktx_cli.project.config import ROLES, load_config
from ktx_cli.project.layout import Layout


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: the text, or the object, and what it took."""

    value: Any
    facts: CallFacts

    @property
    def shown(self) -> str:
        """The answer for a person."""
        return self.value if isinstance(self.value, str) else json.dumps(self.value, indent=2, ensure_ascii=False)


def probe_project(
    project_dir: Path, environ: Mapping[str, str], *, model: str | None, warn: Warn, emit: Emit = ignore_events
) -> list[ProbeResult]:
    """Probe every model of the configuration, or the one named; raises `LlmError` where none is configured."""
    layout = Layout(project_dir)
    config = load_config(layout.config).config
    only = None if model is None else [model_for(config, "default", model=model)]
    if only is None and not distinct_models(config):
        raise no_backend()
    probes = probe_models(layout, config, environ, command="ktx llm probe", warn=warn, only=only, emit=emit)
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
) -> Answer:
    """Ask one question; `-` stands for what is on stdin. Raises `UsageError` for an empty one or an unknown role."""
    if role not in ROLES:
        near = did_you_mean(role, ROLES)
        raise UsageError(f"there is no role `{role}`", hint=f"did you mean `{near}`?" if near else ", ".join(ROLES))
    prompt = sys.stdin.read() if question == "-" else question
    if not prompt.strip():
        raise UsageError("the question is empty", hint='ktx llm ask "Reply with ok"')
    layout = Layout(project_dir)
    config = load_config(layout.config).config
    output = None if schema is None else _model(schema)

    async def work() -> Answer:
        async with project_runtime(layout, config, environ, command="ktx llm ask", warn=warn, emit=emit) as runtime:
            if output is None:
                text = await runtime.generate_text(prompt, system=system, role=role, model=model)
                return Answer(text.text, text.facts)
            found = await runtime.generate_object(prompt, output, system=system, role=role, model=model)
            return Answer(found.value.model_dump(mode="json"), found.facts)

    return run_async(work())


def _model(path: Path) -> type[RootModel[Any]]:
    try:
        return schema_model(_schema(path))
    except ValueError as error:
        raise UsageError(f"the schema {path} holds {error}", hint="json-schema.org says how to write one") from error


def _schema(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"the schema {path} cannot be read: {error.strerror}", hint="--schema FILE") from error
    except ValueError as error:
        raise UsageError(f"the schema {path} is no JSON: {error}", hint="--schema FILE") from error
    except RecursionError as error:
        raise UsageError(f"the schema {path} is nested too deeply to be read", hint="make it flatter") from error
    if not isinstance(value, dict):
        raise UsageError(f"the schema {path} is no JSON object", hint='for example {"type": "object"}')
    return value
