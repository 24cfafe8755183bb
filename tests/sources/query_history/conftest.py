"""A small shop: its manifest, the model of it, and how a history is staged over it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import pytest

from ktx_cli.project.config.blocks import QueryHistory
from ktx_cli.project.workspace import Workspace
from ktx_cli.semantic.load.load import load_tree
from ktx_cli.semantic.model import Model
from ktx_cli.sources.query_history.model import Coverage, History, Observation, scope_of
from ktx_cli.sources.query_history.raw_files import Staged, stage
from ktx_cli.sources.query_history.statements import Redactor
from ktx_cli.sources.query_history.tables import Tables
from ktx_cli.sources.query_history.templates import Readings, TemplateRules

SHARD = "semantic-layer/shop/_schema/public.yaml"
MANIFEST = """\
tables:
  orders:
    table: public.orders
    columns:
      - {name: id, type: number, pk: true}
      - {name: customer_id, type: number}
      - {name: region_id, type: number}
      - {name: status, type: string}
      - {name: total, type: number}
      - {name: created_at, type: time}
    joins:
      - {to: customers, on: customer_id = customers.id, relationship: many_to_one, source: formal}
  customers:
    table: public.customers
    columns:
      - {name: id, type: number, pk: true}
      - {name: name, type: string}
      - {name: country, type: string}
  regions:
    table: public.regions
    columns:
      - {name: region_id, type: number, pk: true}
      - {name: label, type: string}
  old_orders:
    table: archive.orders
    columns:
      - {name: id, type: number, pk: true}
      - {name: total, type: number}
"""
NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


class Tree:
    """Files in memory."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)

    def paths(self, prefix: str) -> list[str]:
        return sorted(path for path in self.files if path.startswith(prefix))


@pytest.fixture
def workspace() -> Workspace:
    return Workspace(Tree({SHARD: MANIFEST.encode()}))


@pytest.fixture
def now() -> datetime:
    return NOW


@pytest.fixture(scope="session")
def model() -> Model:
    return load_tree(Workspace(Tree({SHARD: MANIFEST.encode()})), "shop", "postgres")


@pytest.fixture(scope="session")
def tables(model: Model) -> Tables:
    return Tables(model)


@pytest.fixture(scope="session")
def seen() -> Callable[..., Observation]:
    """An observation: text, executions 10 by ada unless said otherwise."""

    def make(text: str, executions: int = 10, user: str | None = "ada", **facts: Any) -> Observation:
        return Observation(text, executions, user, **facts)

    return make


@pytest.fixture(scope="session")
def staged(tables: Tables) -> Callable[..., Staged]:
    """What a history is staged as; keyword arguments are settings by their `ktx.yaml` keys."""

    def make(
        observations: Iterable[Observation],
        *,
        dialect: str = "postgres",
        enabled_tables: Iterable[str] | None = None,
        coverage: Coverage = Coverage.ALL,
        now: datetime = NOW,
        over: Tables = tables,
        known: Readings | None = None,
        **settings: Any,
    ) -> Staged:
        config = QueryHistory.model_validate(settings)
        redact = Redactor.of(config.redaction_patterns, "redactionPatterns")
        scope = scope_of(config, enabled_tables, over)
        rules = TemplateRules(dialect, over, scope, config, redact, "queryHistory", known or Readings())
        return stage(History(tuple(observations), "test", coverage), rules, "shop", now)

    return make
