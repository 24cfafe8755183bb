"""Reads queries for a connection's semantic layer, completes them, and answers them through the guard."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import (
    Argument,
    Command,
    Hint,
    KtxError,
    NumberFormat,
    ResultWarning,
    SourceError,
    UsageError,
    column_format,
    monotonic,
    plural,
)
from ktx_cli.jobs.semantic.layers import choose_layer
from ktx_cli.jobs.semantic.statuses import answer_status
from ktx_cli.project import DATABASE_SOURCE, KtxConfig, Layout, WorkingTree
from ktx_cli.scan import has_points
from ktx_cli.semantic import (
    DEFAULT_BYTES,
    NOBODY,
    UNCACHED,
    Caller,
    broken_files_named,
    has_masks,
    json_rows,
    lookup_of,
    require_defined,
)
from ktx_cli.warehouses import CachingConnector, SemanticType, TableRef, decimal_places, names_are_missing

if TYPE_CHECKING:
    from ktx_cli.semantic import (
        Answer,
        Column,
        CompiledQuery,
        GuardedConnector,
        Model,
        Parameter,
        Plan,
        PlanDecisions,
        Prepared,
        QueryServices,
        Source,
        Verified,
    )


@dataclass(frozen=True, slots=True)
class LayerAnswer:
    """The answer to a query as JSON values.

    `totals` are the grand totals by column, if requested. `cut` is `rows` or `bytes` if rows were dropped because of
    the row limit or the size limit. `mismatches` counts numbers that differ when recomputed from raw rows. `warnings`
    are about filter values without rows. `formats` are the number formats of the columns, if requested.
    """

    connection: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    sql: str
    receipt: Mapping[str, Any]
    totals: Mapping[str, Any] | None = None
    cut: str | None = None
    mismatches: int = 0
    warnings: tuple[ResultWarning, ...] = ()
    formats: tuple[NumberFormat | None, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the answer for the envelope."""
        return {
            "connection": self.connection,
            "columns": list(self.columns),
            "rows": [list(row) for row in self.rows],
            "row_count": len(self.rows),
            "totals": None if self.totals is None else dict(self.totals),
            "truncated": self.cut is not None,
            "cut": self.cut,
            "sql": self.sql,
            "receipt": dict(self.receipt),
        }

    def error(self, *, values: bool = True) -> KtxError | None:
        """Return the error for an answer with mismatches. Without `values`, it contains no values."""
        if not self.mismatches:
            return None
        verified = self.receipt["verified"]
        first = verified["mismatches"][0] if verified and verified["mismatches"] else None
        where = "" if first is None or not values else f"; first mismatch: {_mismatch_text(first)}"
        checked = "" if verified is None else f" of {verified['numbers']:,} checked"
        numbers = f"{plural(self.mismatches, 'number')}{checked}"
        hint = Hint(
            "do not use the answer: a definition or the compiler is wrong. --json lists the differences in "
            "receipt.verified, and {} shows how the answer was computed; include both when you report this",
            Command("sl", "explain"),
        )
        message = f"{numbers} did not match when recomputed from raw rows{where}"
        details = {"verified": verified} if values else {"mismatches": self.mismatches}
        return KtxError(message, hint=hint, details=details, code="not_verified")


def _mismatch_text(mismatch: Mapping[str, Any]) -> str:
    """Return a description of one mismatch."""
    row = ", ".join("NULL" if each is None else str(each) for each in mismatch["row"])
    values = ("NULL" if each is None else each for each in (mismatch["answered"], mismatch["verified"]))
    answered, recomputed = values
    return f"`{mismatch['column']}`{f' of {row}' if row else ''}: {answered}, recomputed {recomputed}"


def ask_layer(
    layout: Layout,
    config: KtxConfig,
    question: Question,
    *,
    environ: Mapping[str, str],
    now: datetime | None = None,
    max_bytes: int = DEFAULT_BYTES,
    services: QueryServices = UNCACHED,
    suggest: bool | None = None,
    formats: bool = False,
    effects: bool = True,
) -> LayerAnswer:
    """Answer a query.

    `suggest` controls warnings about filter values without rows: None disables them, and false omits suggestions of
    other values, as does `scan.privacy: strict`. `formats` determines number formats. `effects` allows values of open
    decisions. Raises `UsageError` for an ambiguous connection, `SemanticError` if there is no correct answer,
    `StatementRefusedError`, and errors of opening the connection.
    """
    from ktx_cli.semantic import ask_prepared

    started = monotonic()
    connection = choose_layer(layout, config, question.connection)
    model = services.load(layout, config, connection)
    guard = services.guard(layout, config, connection, model)
    query = complete_query(question, model)
    loaded = (monotonic() - started) * 1000
    asked_at = now or datetime.now(UTC)
    opened = guard.open(config, layout=layout, environ=environ, opener=services.opener)
    with broken_files_named(model), opened as connector:
        begun = monotonic()
        prepared = services.prepare(model, query, caller=question.caller, now=asked_at)
        require_defined(config, connection, prepared.asked.plan)
        _require_shown(layout, model, prepared, question.caller)
        of_plan = functools.partial(_decisions_of, prepared.asked.plan, layout, config, model, values=effects)
        decisions = services.remember(connection, prepared, "decisions", of_plan)
        probing = None if services.query_cache is None else CachingConnector(connector, services.query_cache)
        of_answer = functools.partial(answer_status, layout, config, model, prepared.asked, question.least)
        status = services.remember(connection, prepared, f"status {question.least}", of_answer)
        with _rejection_explained(connection, prepared.asked):
            answer = ask_prepared(prepared, connector, probing=probing, compiled_in=monotonic() - begun)
        receipt = dict(answer.receipt)
        verified = _verify_answer(answer, connector, question.verified)
        named = suggest is True and config.scan.privacy != "strict"
        warnings = [] if suggest is None else _value_warnings(answer, connector, layout, connection, suggest=named)
        warnings += _text_warnings(prepared.asked)
    receipt["timing_ms"] = {"load": round(loaded, 2), **receipt["timing_ms"]}
    if verified is not None:
        receipt["timing_ms"]["verify"] = round(verified.milliseconds, 2)
    receipt["verified"] = None if verified is None else verified.to_json()
    receipt["status"] = status
    receipt["explained_by"] = _pages_about(answer, layout, config, connection, environ)
    receipt = {**receipt, "open": []} if decisions is None else decisions.added_to(receipt, values=effects)
    rows, too_large = json_rows(answer.rows, max_bytes)
    totals = None if answer.totals is None else json_rows([answer.totals])[0][0]
    return LayerAnswer(
        connection,
        tuple(answer.columns),
        rows,
        answer.sql,
        receipt,
        None if totals is None else dict(zip(answer.columns[-len(totals) :], totals, strict=True)),
        _cut_reason(answer, too_large, prepared.asked.plan.query.limit),
        0 if verified is None else len(verified.mismatches),
        tuple(warnings),
        _formats(answer, layout, connection) if formats else (),
    )


def _require_shown(layout: Layout, model: Model, prepared: Prepared, caller: Caller) -> None:
    """Raise `KtxError` (`hidden`) if a source in the query reads data that is hidden elsewhere, in SQL or a view."""
    names = list(prepared.asked.compiled.build.sources)
    if not has_masks(model):
        names = [name for name in names if model.sources[name].sql]
    if names:
        from ktx_cli.protection import source_guard

        if (guard := source_guard(model, WorkingTree(layout.root), caller)) is not None:
            guard(names)


def _text_warnings(asked: CompiledQuery) -> list[ResultWarning]:
    from ktx_cli.semantic import sums_of_text

    return [
        ResultWarning("text_sum", f"`{column}` is a string, so its {function} may count text as 0", hint=_cast(column))
        for function, column in sums_of_text(asked)
    ]


def _cast(column: str) -> Hint:
    return Hint("convert it to a number, for example: CAST({} AS decimal(18, 2))", column)


@contextlib.contextmanager
def _rejection_explained(connection: str, asked: CompiledQuery) -> Iterator[None]:
    """Add a hint if the database rejects a compiled statement, which the user did not write and cannot correct."""
    try:
        yield
    except SourceError as error:
        from ktx_cli.semantic import sums_of_text

        texts = sums_of_text(asked) if error.code == "query" else []
        if texts:
            function, column = texts[0]
            message = f"connection `{connection}` cannot compute the {function} of `{column}`, which is a string"
            raise SourceError(message, hint=_cast(column), code="query") from error
        if error.code == "query" and names_are_missing(error):
            diff = Command("diff", connection)
            error.hint = Hint("run `{}` to see what changed in the database since the last scan", diff)
        elif error.code == "query" and "limit" not in error.details:
            error.hint = Hint("add `{}` to the query to see the generated SQL", Argument("explain", True))
        raise


def _pages_about(
    answer: Answer, layout: Layout, config: KtxConfig, connection: str, environ: Mapping[str, str]
) -> list[str]:
    """Return the keys of the wiki pages that refer to a measure in an answer, according to the search index."""
    from ktx_cli.search import explaining_in, index_of

    if answer.asked is None:
        return []
    chains = (chain for chains in answer.asked.plan.named_by.values() for chain in chains)
    names = dict.fromkeys(name for chain in chains for name in chain if "." in name)
    if not names:
        return []
    index = index_of(layout, config, environ)
    if isinstance(index, Path):
        found = explaining_in(index, connection, names)
    else:
        from ktx_cli.search import explaining_in_tree

        found = explaining_in_tree(index, connection, names)
    pages = dict.fromkeys(page for name in names for page in found.get(name, ()))
    if not pages:
        return []
    from ktx_cli.wiki import GLOBAL, page_path

    return [page for page in pages if (layout.root / page_path(GLOBAL, page)).is_file()]


def _decisions_of(plan: Plan, layout: Layout, config: KtxConfig, model: Model, *, values: bool) -> PlanDecisions | None:
    """Return the decision points that a query depends on, or None if no scan found any."""
    if not has_points(layout, model.connection):
        return None
    from ktx_cli.jobs.decide.notes import plan_decisions

    return plan_decisions(layout, config, model, plan, values=values)


def _value_warnings(
    answer: Answer, connector: GuardedConnector, layout: Layout, connection: str, *, suggest: bool
) -> list[ResultWarning]:
    plan = None if answer.asked is None else answer.asked.plan
    if plan is None or not (plan.filters or plan.time_range):  # most questions: nothing is loaded for them
        return []
    from ktx_cli.jobs.semantic.warnings import value_warnings

    return value_warnings(answer, connector, layout, connection, suggest=suggest)


def _formats(answer: Answer, layout: Layout, connection: str) -> tuple[NumberFormat | None, ...]:
    """Return the number format for each column of an answer, or None for columns without numbers."""
    from ktx_cli.semantic import number_styles

    types = functools.cache(functools.partial(_native_types, layout, connection))

    def scale_of(source: Source, column: Column) -> int | None:
        spelled = types(source.table).get(column.name.casefold()) if source.table else None
        return None if spelled is None else decimal_places(spelled)

    asked = answer.asked
    styles = [None] * len(answer.columns) if asked is None else number_styles(asked, scale_of)
    rows: list[Sequence[Any]] = list(answer.rows)
    if answer.totals is not None:
        rows.append((*[None] * (len(answer.columns) - len(answer.totals)), *answer.totals))
    return tuple(column_format([row[place] for row in rows], style) for place, style in enumerate(styles))


def _native_types(layout: Layout, connection: str, table: tuple[str, ...]) -> Mapping[str, str]:
    """Return the column types of a table in the last committed scan, by lower-case column name.

    Returns nothing if the project has no snapshot of the table; numbers are then printed without a scale.
    """
    from ktx_cli.scan import read_table, table_path

    schema = table[-2] if len(table) > 1 else None
    path = layout.raw_path(connection, DATABASE_SOURCE, table_path(TableRef(schema, table[-1])))
    try:
        content = WorkingTree(layout.root).read(path)
        columns = () if content is None else read_table(content, path).columns
    except KtxError:  # `ktx doctor` reports a damaged snapshot
        return {}
    return {each.name.casefold(): each.native_type for each in columns}


def _cut_reason(answer: Answer, too_large: bool, limit: int) -> str | None:
    """Return why rows were dropped. An answer that was cut before its row limit reached the size limit."""
    if too_large or (answer.truncated and len(answer.rows) < limit):
        return "bytes"
    return "rows" if answer.truncated else None


def _verify_answer(answer: Answer, connector: GuardedConnector, wanted: bool | None) -> Verified | None:
    """Recompute every row of an answer, or none. If `wanted` is None, recompute a sample of numbers over time."""
    from ktx_cli.semantic import verify, verify_sample

    asked = answer.asked
    if asked is None or wanted is False:
        return None

    def ask_again() -> Sequence[Sequence[Any]]:
        return connector.query(asked.sent, max_rows=asked.plan.query.limit + 1).rows

    build = asked.compiled.build
    if wanted:
        return verify(build, answer.rows, connector, ask_again=ask_again)
    seconds = answer.receipt["timing_ms"]["execute"] / 1000
    return verify_sample(build, answer.rows, connector, statement_seconds=seconds, ask_again=ask_again)


_TIME: Final = "metric_time"


@dataclass(frozen=True, slots=True)
class Question:
    """A semantic layer query and its caller.

    `query` is the JSON query. `grain` applies to time dimensions without one; if there is no time dimension,
    `metric_time` is added. `parameters` are texts that are read according to their declarations. `caller` is used
    by row policies. `verified` recomputes every row from raw rows; None recomputes a sample if numbers count rows
    outside their period. `least` is the lowest allowed status of definitions, by default that of the
    project.
    """

    query: Mapping[str, Any]
    connection: str | None = None
    grain: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    caller: Caller = NOBODY
    verified: bool | None = None
    least: str | None = None


def read_attributes(texts: Sequence[str] | None) -> dict[str, Any]:
    """Parse `NAME=TEXT` and `NAME:=JSON` attributes. Raises `UsageError` for anything else."""
    found: dict[str, Any] = {}
    for text in texts or ():
        name, equal, value = text.partition("=")
        if not equal or not name.strip():
            raise UsageError(f"--user-attribute must be NAME=VALUE, not `{text}`", hint="--user-attribute region=EU")
        name = name.strip()
        if not name.endswith(":"):
            found[name] = value
            continue
        try:
            found[name[:-1]] = json.loads(value)
        except ValueError as error:
            message = f"the value after `:=` is not valid JSON: `{name}={value}` ({error})"
            raise UsageError(message, hint=f"--user-attribute {name[:-1]}={value}") from error
    return found


def complete_query(question: Question, model: Model) -> dict[str, Any]:
    """Return the query with grain and parameters applied."""
    query = dict(question.query)
    if question.grain is not None:
        query["dimensions"] = _with_grain(list(query.get("dimensions") or ()), question.grain, model)
    if question.parameters:
        declared = lookup_of(model).parameters
        typed = {name: _parameter_value(text, declared.get(name)) for name, text in question.parameters.items()}
        query["parameters"] = {**(query.get("parameters") or {}), **typed}
    return query


def _with_grain(dimensions: list[Any], grain: str, model: Model) -> list[Any]:
    cut = [{**_as_object(each), "granularity": grain} if _is_bare_time(each, model) else each for each in dimensions]
    has_time = any(each != other for each, other in zip(cut, dimensions, strict=True))
    return cut if has_time else [*cut, {"field": _TIME, "granularity": grain}]


def _as_object(dimension: Any) -> dict[str, Any]:
    from ktx_cli.semantic import with_name

    asked = {"field": dimension} if isinstance(dimension, str) else dict(dimension)
    if not isinstance(asked.get("field"), str) or asked.get("name") is not None:
        return asked
    field, name = with_name(asked["field"])
    return asked if name is None else {**asked, "field": field, "name": name}


def _is_bare_time(dimension: Any, model: Model) -> bool:
    """Whether a dimension is a time that is not truncated yet."""
    if not isinstance(dimension, str | dict):
        return False
    asked = _as_object(dimension)
    if asked.get("granularity") is not None or not isinstance(asked.get("field"), str):
        return False
    return asked["field"] == _TIME or any(each.type is SemanticType.TIME for each in _columns(asked["field"], model))


def _columns(reference: str, model: Model) -> list[Column]:
    """Return the columns that a reference may mean, in its source or, for a bare name, in all sources."""
    owner, _, leaf = reference.rpartition(".")
    source = model.sources.get(owner.rpartition(".")[2])
    sources = [source] if source is not None else [model.sources[each] for each in lookup_of(model).with_column(leaf)]
    return [column for each in sources if (column := each.column(leaf)) is not None]


def _parameter_value(text: str, parameter: Parameter | None) -> Any:
    """Convert a text to the type of its parameter. An invalid text is kept and refused later with its name."""
    if parameter is None or parameter.type in (SemanticType.STRING, SemanticType.TIME):
        return text
    if parameter.type is SemanticType.BOOLEAN:
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        return text
