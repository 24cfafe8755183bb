"""The one module that knows ktx: puts a case to an engine through the semantic layer."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from ktx_cli.core.errors import KtxError
from ktx_cli.project.layout import Layout
from ktx_cli.semantic.answer import ask
from ktx_cli.semantic.caller import Caller
from ktx_cli.semantic.load.load import load_model
from ktx_cli.semantic.model import CalendarSettings, Model, SemanticError
from ktx_cli.testing.servers import PostgresServer
from ktx_cli.warehouses.port import ConnectionSpec, Connector
from ktx_cli.warehouses.registry import connect
from tests.semantic_oracle.cases.base import Case, World
from tests.semantic_oracle.tables import make_file, make_schema, write_sources

CONNECTION = "warehouse"
_NUMBERS = itertools.count(1)
SCHEMAS = {"duckdb": "main", "sqlite": None}


@dataclass(frozen=True)
class Got:
    """What ktx answered: rows, or the code of its refusal."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    totals: tuple[Any, ...] | None = None
    truncated: bool = False
    sql: str = ""
    code: str | None = None
    message: str = ""
    overlapping: tuple[str, ...] = ()
    """The facts whose rows may be in several groups."""


class Adapter:
    """One engine with the tables of every world asked of it; a context manager. `folder` is its own."""

    def __init__(self, engine: str, folder: Path, server: PostgresServer | None = None):
        self.engine = engine
        self.folder = folder
        self.server = server
        self._connectors: dict[int, tuple[Connector, str | None, World]] = {}
        self._models: dict[Any, Model] = {}
        self._url: str | None = None

    def __enter__(self) -> Adapter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connector, _, _ in self._connectors.values():
            connector.close()

    def answer(self, case: Case) -> Got:
        """Return what ktx answers a case, or how it refuses."""
        connector, _, _ = self._connected(case.world)
        try:
            model = self.model(case)
            answer = ask(model, dict(case.query), connector, caller=Caller.of(case.attributes), now=case.now)
        except KtxError as error:
            code = error.code if isinstance(error, SemanticError) else f"{type(error).__name__} {error.code}"
            return Got([], [], code=code, message=f"{error.message} ({error.hint})")
        sql, facts = answer.receipt["sql"], answer.receipt["facts"]
        overlapping = tuple(each["fact"] for each in facts if each["overlapping"])
        return Got(answer.columns, answer.rows, answer.totals, answer.truncated, sql, overlapping=overlapping)

    def model(self, case: Case) -> Model:
        """Return the model of a case's world, read from files."""
        connector, schema, _ = self._connected(case.world)
        key = (case.world.name, tuple(sorted(case.calendar.items())))
        if key not in self._models:
            root = self.folder / f"project{len(self._models)}"
            write_sources(root / "semantic-layer" / CONNECTION, case.world, schema)
            calendar = CalendarSettings(**case.calendar)
            self._models[key] = load_model(Layout(root), CONNECTION, connector.dialect, calendar)
        return self._models[key]

    def _connected(self, world: World) -> tuple[Connector, str | None, World]:
        """Return the connection to a world's tables, made when they are first asked of."""
        key = id(world.tables)
        if key not in self._connectors:
            self._connectors[key] = (*self._made(world), world)
        return self._connectors[key]

    def _made(self, world: World) -> tuple[Connector, str | None]:
        if self.engine == "postgres":
            return self._postgres(world)
        path = self.folder / f"world{len(self._connectors)}.{self.engine}"
        make_file(self.engine, path, world)
        return connect(ConnectionSpec(CONNECTION, self.engine, {"path": str(path)})), SCHEMAS[self.engine]

    def _postgres(self, world: World) -> tuple[Connector, str | None]:
        """Make a schema of the adapter's one database; all worlds share the connection."""
        assert self.server is not None
        if self._url is None:
            self._url = self.server.create_database(f"oracle{next(_NUMBERS)}")
        schema = f"{world.name} {len(self._connectors)}"
        self.server.execute(*make_schema(world, schema), database=self._url.rsplit("/", 1)[1])
        shared = next((connector for connector, _, _ in self._connectors.values()), None)
        return shared or connect(ConnectionSpec(CONNECTION, "postgres", {"url": self._url})), schema
