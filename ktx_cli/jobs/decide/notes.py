"""Notes about decision points for queries and SQL statements, and the policy that refuses open decisions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ktx_cli.core import Hint, KtxError, listing
from ktx_cli.jobs.decide.points import load_decisions
from ktx_cli.project import DATABASE_SOURCE, KtxConfig, Layout, Tree, WorkingTree
from ktx_cli.scan import has_points, read_table, table_path
from ktx_cli.semantic import (
    DecisionKind,
    Graph,
    OpenDecision,
    PlanDecisions,
    VisibleModel,
    decision_text,
    decisions_of_plan,
    graph_of,
    is_touched,
    names_hidden,
    names_values,
    open_notes,
    reached_from,
    shown_decision,
)
from ktx_cli.warehouses import TableRef

if TYPE_CHECKING:
    from ktx_cli.jobs.decide.points import LoadedDecisions
    from ktx_cli.semantic import DecisionAnswer, DecisionPoint, Decisions, Model, Plan, Source

OPEN_DECISION = "open_decision"


def plan_decisions(
    layout: Layout, config: KtxConfig, model: Model, plan: Plan, *, values: bool = True
) -> PlanDecisions:
    """Return the decision points that a query depends on. `values` says whether errors may contain row values.

    Raises `KtxError` (`open_decision`) if one is open and `semantic.open_decisions` is `refuse`.
    """
    decisions = load_decisions(WorkingTree(layout.root), model, layout).decisions
    found = decisions_of_plan(decisions, model, plan)
    _require_decided(config, found.open, values=values)
    return found


@dataclass(frozen=True, slots=True)
class StatementDecisions:
    """The open points that an SQL statement depends on, and notes about decisions that it might not follow."""

    open: tuple[OpenDecision, ...] = ()
    decided: tuple[_Decided, ...] = ()

    def notes(self, *, values: bool = True) -> list[str]:
        """Return the notes. Without `values`, they contain no row values."""
        opened = open_notes(self.open, values=values, private=not values)
        return [*opened, *(each.note(values=values) for each in self.decided)]

    def to_json(self, *, values: bool = True) -> list[dict[str, Any]]:
        """Return the open points for the envelope."""
        return [each.to_json(values=values, private=not values) for each in self.open]


@dataclass(frozen=True, slots=True)
class _Decided:
    """A decision that a statement might not follow. `is_masked` means that it is about hidden data."""

    point: DecisionPoint
    filter: str
    answer: DecisionAnswer
    is_masked: bool

    def note(self, *, values: bool) -> str:
        if self.is_masked:
            follow = "semantic layer measures follow it, but this statement cannot"
            return f"decided: a condition on hidden data; {follow}"
        decided = f"decided: {decision_text(self.point, self.answer, private=not values)}"
        if not values and names_values(self.point):
            return f"{decided}; semantic layer measures follow it"
        return f"{decided}; in SQL, rows of {self.point.source} count where `{self.filter}`"


def statement_decisions(
    layout: Layout, config: KtxConfig, model: Model, sql: str, *, values: bool = True
) -> StatementDecisions:
    """Return the decision points that an SQL statement depends on, by the relations and columns that it reads.

    Views are resolved to their tables in the last scan. A statement with a condition on a column of a point, or that
    reads a view with one, settles the point itself; if the point is about a formula or a date, using the column is
    enough. Raises the same errors as `plan_decisions`.
    """
    from ktx_cli.protection import condition_columns, names_in

    named = names_in(sql, model.dialect)
    if named is None:
        return StatementDecisions()
    tree = WorkingTree(layout.root)
    decisions = load_decisions(tree, model, layout).decisions
    if not decisions.points:
        return StatementDecisions()
    sources, conditions = _read_through(tree, model, named.tables)
    conditions |= condition_columns(sql, model.dialect)
    columns = {column.casefold() for _, column in named.columns} | conditions
    visible = VisibleModel(model)
    found = [
        _open_in(decisions, visible, point, sources)
        for point in decisions.unsettled()
        if _depends(point, sources) and not _says(point, conditions if point.is_about_rows else columns)
    ]
    _require_decided(config, found, values=values)
    decided = [
        _Decided(point, chosen.filter, answer, names_hidden(visible, point))
        for point, chosen, answer in decisions.decided()
        if chosen.filter and _depends(point, sources)
        if not _says(point, conditions)
    ]
    return StatementDecisions(tuple(found), tuple(decided))


def _read_through(tree: Tree, model: Model, tables: Collection[tuple[str, ...]]) -> tuple[dict[str, Source], set[str]]:
    """Return the sources for tables and for the tables behind views, and the columns in the conditions of views."""
    from ktx_cli.protection import sources_of, view_reads

    sources: dict[str, Source] = {}
    conditions: set[str] = set()
    waiting = sorted(tables)
    while waiting:
        for source in sources_of(model, waiting.pop()):
            if source.name in sources or source.table is None:
                continue
            sources[source.name] = source
            query = _query_of_view(tree, model.connection, source.table)
            if query is not None:
                reads = view_reads(query, model.dialect)
                conditions |= reads.conditions
                waiting += sorted(reads.tables)
    return sources, conditions


def _query_of_view(tree: Tree, connection: str, table: tuple[str, ...]) -> str | None:
    """Return a view's query from the last scan, or None for a table or an unknown relation."""
    ref = TableRef(table[-2] if len(table) > 1 else None, table[-1])
    path = f"{Layout.raw_path(connection, DATABASE_SOURCE)}/{table_path(ref)}"
    content = tree.read(path)
    try:
        return None if content is None else read_table(content, path).view_sql
    except KtxError:  # written by a newer version with more kinds of tables
        return None


def _says(point: DecisionPoint, columns: Collection[str]) -> bool:
    return any(each.casefold() in columns for each in point.telling_columns)


def _depends(point: DecisionPoint, sources: dict[str, Source]) -> bool:
    """Whether a statement on these sources depends on a point: it reads the point's or an affected table.

    The fiscal year does not count, because SQL computes its own periods.
    """
    if point.kind is DecisionKind.FISCAL_START:
        return False
    moved = (measure.partition(".")[0] for measure, spread in point.spreads.items() if spread)
    return point.source in sources or any(source in sources for source in moved)


def _open_in(
    decisions: Decisions, visible: VisibleModel, point: DecisionPoint, sources: dict[str, Source]
) -> OpenDecision:
    measures = [each for each in point.spreads if each.partition(".")[0] in sources]
    return shown_decision(decisions, visible, point, measures)


def project_decisions(loaded: Iterable[LoadedDecisions]) -> list[OpenDecision]:
    """Return a project's open points, largest effect first. Points about hidden data are masked."""
    found = [
        shown_decision(each.decisions, visible, point)
        for each in loaded
        for visible in [VisibleModel(each.model)]
        for point in each.decisions.unsettled()
    ]
    return sorted(found, key=lambda each: -each.point.spread)


def _require_decided(config: KtxConfig, found: Sequence[OpenDecision], *, values: bool) -> None:
    if not found or config.semantic.open_decisions != "refuse":
        return
    first = found[0]
    questions = listing((f"`{each.question_text(private=not values)}`" for each in found), 3)
    hint = Hint("ask a person to run {}", first.command)
    if not first.is_masked:
        columns = listing((f"{first.point.source}.{each}" for each in first.point.telling_columns), 3)
        hint = Hint("{}; until then, choose a reading with a condition on {}", hint, columns)
    details = {"open": [each.to_json(values=False, private=not values) for each in found]}
    raise KtxError(f"the answer depends on open decisions: {questions}", code=OPEN_DECISION, hint=hint, details=details)


class DefinitionNotes:
    """Short notes about open decisions for listed sources, measures and search hits. Each layer is read once.

    Effects are relative differences. `load` reads the semantic layer of a connection. If `private` is true, notes
    contain no values.
    """

    def __init__(self, layout: Layout, load: Callable[[str], Model], *, private: bool = False) -> None:
        self._layout, self._load, self._private = layout, load, private
        self._known: dict[str, tuple[Model, Graph, Decisions] | None] = {}

    def of_hit(self, connection: str | None, kind: str, name: str) -> list[str]:
        """Return the notes for a search hit: a source, or a measure as `source.measure`."""
        if not connection or kind not in ("source", "measure"):
            return []
        source, _, measure = name.rpartition(".") if kind == "measure" else (name, "", "")
        return self.of(connection, source, measure or None)

    def of(self, connection: str, source: str, measure: str | None = None) -> list[str]:
        """Return the notes for a source or one of its measures."""
        if connection not in self._known:
            self._known[connection] = self._read(connection)
        known = self._known[connection]
        if known is None or source not in known[0].sources:
            return []
        model, graph, decisions = known
        found = definition_decisions(decisions, model, graph, model.sources[source], measure)
        return open_notes(found, values=False, private=self._private)

    def _read(self, connection: str) -> tuple[Model, Graph, Decisions] | None:
        if not has_points(self._layout, connection):
            return None
        model = self._load(connection)
        decisions = load_decisions(WorkingTree(self._layout.root), model, self._layout).decisions
        return model, graph_of(model), decisions


def definition_decisions(
    decisions: Decisions, model: Model, graph: Graph, source: Source, measure: str | None = None
) -> list[OpenDecision]:
    """Return the open points that a source or one of its measures depends on."""
    points = decisions.unsettled()
    reached = reached_from(graph, source.name, {each.source for each in points}) if points else frozenset()
    visible = VisibleModel(model)
    names = [measure] if measure is not None else [each.name for each in visible.measures(source)]
    found = []
    for point in points:
        if point.kind is DecisionKind.FISCAL_START and point.source != source.name:
            continue
        refs = [ref for name in names if is_touched(point, ref := f"{source.name}.{name}", reached)]
        if refs or (measure is None and point.source == source.name):
            known = [ref for ref in refs if ref in point.spreads]
            found.append(shown_decision(decisions, visible, point, known))
    return found
