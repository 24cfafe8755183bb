"""What the agent tasks of one run share: prompts, skills, gates, and the databases and values their tools reach."""

from __future__ import annotations

import functools
import hashlib
import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.agent_tools import Find, Layers, Library, ToolSession
from ktx_cli.engine.gates import Gates
from ktx_cli.engine.plan import RunPlan
from ktx_cli.llm import model_for
from ktx_cli.project import Workspace
from ktx_cli.prompts import Prompt, Skill
from ktx_cli.semantic import ColumnValues, Guard, Source, calendar_of, load_lists
from ktx_cli.warehouses import QueryResult

FORMAT: Final = "1"
"""Raised when the same unit would be worked on in another way."""

MOST_VALUES: Final = 5
"""Values an agent sees of a column, the most frequent ones."""


class ValueSamples:
    """The value lists of the last scans; those of a connection are read when they are first asked for."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._lists: dict[str, dict[str, list[ColumnValues]]] = {}

    def __call__(self, connection: str, source: Source) -> Mapping[str, tuple[Any, ...]]:
        """Return column -> values; a column without a list is not among them."""
        if source.table is None:
            return {}
        return {
            column.name: tuple(value for value, _ in listed.values[:MOST_VALUES])
            for listed in self._lists_of(connection).get(source.table[-1].casefold(), ())
            if source.is_of(listed.ref)
            and (column := source.column(listed.column)) is not None
            and column.expr is None
            and listed.values
        }

    def _lists_of(self, connection: str) -> Mapping[str, list[ColumnValues]]:
        if connection not in self._lists:
            by_table: dict[str, list[ColumnValues]] = {}
            for values in load_lists(self._database, connection):
                by_table.setdefault(values.ref.name.casefold(), []).append(values)
            self._lists[connection] = by_table
        return self._lists[connection]


@dataclass(frozen=True)
class AgentContext:
    """What the agent tasks of one run share; nothing in it changes while they run."""

    plan: RunPlan
    base: Workspace
    """The overlay every unit begins with."""
    gates: Gates
    prompts: Mapping[str, Prompt]
    skills: Mapping[str, Skill]
    library: Library
    """The documents of the run."""
    values: ValueSamples
    find: Find
    """Searches an overlay."""

    @property
    def layers(self) -> Layers:
        """The semantic layers of the databases."""
        return self.gates.layers

    def open_session(
        self, workspace: Workspace, connections: Mapping[str, str] | None = None, **fields: Any
    ) -> ToolSession:
        """Open the tools of a task on an overlay of its own.

        `connections`: the databases it may work on, with their dialects; None: all. `fields`: see `ToolSession`.
        """
        return ToolSession(
            workspace,
            connections=self.plan.dialects if connections is None else connections,
            configured=self.plan.config.connections.keys(),
            calendar=calendar_of(self.plan.config),
            privacy=self.plan.config.scan.privacy,
            run_sql=self._run_sql,
            values=self.values,
            find=self.find,
            skills=self.skills,
            **fields,
        )

    def version(self, role: str) -> str:
        """Return what tells prompts, skills and the model of a role from any others: another one is other work."""
        ref = model_for(self.plan.config, role)
        parts = [FORMAT, *self._text_versions, ref.backend, ref.model]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @functools.cached_property
    def _text_versions(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        skills = {name: hashlib.sha256(skill.text.encode()).hexdigest() for name, skill in self.skills.items()}
        return {name: prompt.version for name, prompt in self.prompts.items()}, skills

    def _run_sql(self, connection: str, sql: str, limit: int) -> QueryResult:
        model = self.layers.model(self.base, connection)
        tables = [source.table for source in model.sources.values() if source.table is not None]
        plan = self.plan
        guard = Guard.of(plan.layout, plan.config, connection, tables)
        guard.check(sql, max_rows=limit)
        with guard.open(plan.config, layout=plan.layout, environ=plan.environ) as connector:
            return connector.query(sql, max_rows=limit)
