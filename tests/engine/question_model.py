"""A scripted model that writes the questions of definitions, and the end of a run at which it is asked."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from ktx_cli.agent_tools import Layers
from ktx_cli.core import ResultWarning, ignore_events
from ktx_cli.engine.definition_questions import write_definition_questions
from ktx_cli.engine.task import Cancellation
from ktx_cli.llm import LlmError
from ktx_cli.project import KtxConfig, Layout, StateEnrichmentStore, WorkingTree, Workspace
from ktx_cli.semantic import calendar_of
from ktx_cli.warehouses import dialect_of

Answer = Callable[[str], dict[str, Any]]


class Model:
    """Answers each question by a function of the message, or fails; `asked`: the messages."""

    stopped = None

    def __init__(self, answer: Answer, error: LlmError | None = None) -> None:
        self.asked: list[str] = []
        self._answer, self._error = answer, error

    def cancels(self, cancellation: Cancellation) -> None:
        """Nothing ends the questions from outside."""

    def ask(self, question: Callable[[Any], Any]) -> Any:
        """Return the answer to a question."""
        return asyncio.run(question(self))

    async def generate_object(self, message: str, output: Any, **more: Any) -> Any:
        """Return an answer of the wanted form."""
        self.asked.append(message)
        if self._error is not None:
            raise self._error
        return SimpleNamespace(value=output.model_validate(self._answer(message)))


def run_plan(layout: Layout, config: KtxConfig, warnings: list[ResultWarning]) -> Any:
    """Return what the end of a run needs of its plan."""
    dialects = {each: dialect_of(entry.driver) or "" for each, entry in config.databases().items()}
    layers = Layers(dialects, calendar_of(config), config.connections.keys())
    return SimpleNamespace(layout=layout, config=config, layers=layers, emit=ignore_events, warn=warnings.append)


def write_questions(
    layout: Layout, config: KtxConfig, database: sqlite3.Connection, model: Model, warnings: list[ResultWarning]
) -> Mapping[str, bytes | None]:
    """Write the questions of all layers of a project as the end of a run does, and return the files that change."""
    plan: Any = run_plan(layout, config, warnings)
    workspace, store = Workspace(WorkingTree(layout.root)), StateEnrichmentStore(layout, database)
    given: Any = model
    write_definition_questions(plan, workspace, list(config.databases()), given, store)
    changes = workspace.changes()
    for path, content in changes.items():
        (layout.root / path).parent.mkdir(parents=True, exist_ok=True)
        (layout.root / path).write_bytes(content or b"")
    return changes
