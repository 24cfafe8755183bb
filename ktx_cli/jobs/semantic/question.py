"""Questions to the semantic layer of a connection: read, shaped, and answered through the guard."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import (
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
from ktx_cli.semantic import DEFAULT_BYTES, UNCACHED, broken_files_named, json_rows, lookup_of, require_defined
from ktx_cli.warehouses import CachingConnector, SemanticType, TableRef, decimal_places, names_are_missing

if TYPE_CHECKING:
    from ktx_cli.semantic import (
        Answer,
        Column,
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
    """The answer of a question, its values as JSON takes them.

    `totals`: the measures without any dimension, by column, None where they were not asked for. `cut`: whether rows
    were left out because there were more (`rows`) or because they were too large (`bytes`). `mismatches`: how many
    numbers came out differently when they were recomputed from raw rows. `warnings`: filter values that no row has.
    `formats`: how the numbers of each column are printed, where that was asked for.
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
        """Return the answer as it stands in the envelope."""
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
        """Return the error for an answer whose recomputed numbers differ; without `values` it names none of them."""
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
    """Return one number that differs, in words."""
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
    """Return the answer of a question.

    `suggest`: whether to warn about filter values that no row has, and whether other values may be named (None: no
    warning). With `scan.privacy: strict` none is named. `formats`: find out how numbers are printed. `effects`: whether
    values of open decisions may be named.
    Raises `UsageError` (which connection), `SemanticError` where there is no right answer, `StatementRefusedError`,
    and what opening a connection raises.
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
        prepared = services.prepare(model, query, attributes=question.attributes, now=asked_at)
        require_defined(config, connection, prepared.asked.plan)
        _require_shown(layout, model, prepared)
        of_plan = functools.partial(_decisions_of, prepared.asked.plan, layout, config, model, values=effects)
        decisions = services.remember(connection, prepared, "decisions", of_plan)
        probing = None if services.query_cache is None else CachingConnector(connector, services.query_cache)
        of_answer = functools.partial(answer_status, layout, config, model, prepared.asked, question.least)
        status = services.remember(connection, prepared, f"status {question.least}", of_answer)
        with _schema_changes_named(connection):
            answer = ask_prepared(prepared, connector, probing=probing, compiled_in=monotonic() - begun)
        receipt = dict(answer.receipt)
        verified = _verify_answer(answer, connector, question.verified)
        named = suggest is True and config.scan.privacy != "strict"
        warnings = [] if suggest is None else _value_warnings(answer, connector, layout, connection, suggest=named)
    receipt["timing_ms"] = {"load": round(loaded, 2), **receipt["timing_ms"]}
    if verified is not None:
        receipt["timing_ms"]["verify"] = round(verified.milliseconds, 2)
    receipt["verified"] = None if verified is None else verified.to_json()
    receipt["status"] = status
    receipt["explained_by"] = _pages_about(answer, layout, connection)
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


def _require_shown(layout: Layout, model: Model, prepared: Prepared) -> None:
    """Raise `KtxError` (`hidden`) where a source that the question reads has SQL over what is hidden elsewhere."""
    names = [name for name in prepared.asked.compiled.build.sources if model.sources[name].sql]
    if names:
        from ktx_cli.protection import source_guard

        if (guard := source_guard(model, WorkingTree(layout.root))) is not None:
            guard(names)


@contextlib.contextmanager
def _schema_changes_named(connection: str) -> Iterator[None]:
    """Say where to look when a database refuses a statement that ktx compiled: nobody wrote it who could correct it."""
    try:
        yield
    except SourceError as error:
        if error.code == "query" and names_are_missing(error):
            diff = Command("diff", connection)
            error.hint = Hint("run `{}` to see what changed in the database since the last scan", diff)
        elif error.code == "query":
            error.hint = Hint("run `{}` to see the generated SQL", Command("sl", "explain"))
        raise


def _pages_about(answer: Answer, layout: Layout, connection: str) -> list[str]:
    """Return the keys of the wiki pages that name a measure of an answer, as far as the search index knows them."""
    from ktx_cli.search import explaining_in

    if answer.asked is None:
        return []
    chains = (chain for chains in answer.asked.plan.named_by.values() for chain in chains)
    names = dict.fromkeys(name for chain in chains for name in chain if "." in name)
    found = explaining_in(layout.search_index, connection, names.keys())
    pages = dict.fromkeys(page for name in names for page in found.get(name, ()))
    if not pages:
        return []
    from ktx_cli.wiki import GLOBAL, page_path

    return [page for page in pages if (layout.root / page_path(GLOBAL, page)).is_file()]


def _decisions_of(plan: Plan, layout: Layout, config: KtxConfig, model: Model, *, values: bool) -> PlanDecisions | None:
    """Return the decision points that a question depends on; None where no scan found any."""
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
    """Return for each column of an answer how its numbers are printed, None where it has others than numbers."""
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
    """Return the types of a table's columns as the last scan committed them, by column in small letters.

    None of them where the project has no such snapshot; numbers are printed all the same.
    """
    from ktx_cli.scan import read_table, table_path

    schema = table[-2] if len(table) > 1 else None
    path = layout.raw_path(connection, DATABASE_SOURCE, table_path(TableRef(schema, table[-1])))
    try:
        content = WorkingTree(layout.root).read(path)
        columns = () if content is None else read_table(content, path).columns
    except KtxError:  # `ktx doctor` tells of a snapshot that is damaged
        return {}
    return {each.name.casefold(): each.native_type for each in columns}


def _cut_reason(answer: Answer, too_large: bool, limit: int) -> str | None:
    """Return why rows were left out; an answer cut before its limit held all the bytes a session may."""
    if too_large or (answer.truncated and len(answer.rows) < limit):
        return "bytes"
    return "rows" if answer.truncated else None


def _verify_answer(answer: Answer, connector: GuardedConnector, wanted: bool | None) -> Verified | None:
    """Recompute every row of an answer, none, or (`wanted` None) a sample where its numbers are over time."""
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
    """A question to the semantic layer, and who asks it.

    `query`: as JSON has it. `grain`: for the dimensions that are times and have none; where none is a time,
    `metric_time` becomes one. `parameters`: texts, read as their declarations say. `attributes`: of the caller, for
    policies. `verified`: whether every row of the answer is recomputed from raw rows; None: a sample of them, where
    numbers count rows of another time than their period. `least`: the lowest status of the definitions it may be made
    of; None: that of the project.
    """

    query: Mapping[str, Any]
    connection: str | None = None
    grain: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    verified: bool | None = None
    least: str | None = None


def read_attributes(texts: Sequence[str] | None) -> dict[str, Any]:
    """Return the attributes of `NAME=TEXT` and `NAME:=JSON`; `UsageError` for anything else."""
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
    """Return the query with the grain and the parameters in their places."""
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
    """Whether a dimension is a time that is not cut yet."""
    if not isinstance(dimension, str | dict):
        return False
    asked = _as_object(dimension)
    if asked.get("granularity") is not None or not isinstance(asked.get("field"), str):
        return False
    return asked["field"] == _TIME or any(each.type is SemanticType.TIME for each in _columns(asked["field"], model))


def _columns(reference: str, model: Model) -> list[Column]:
    """Return the columns a reference may mean: of the source it names, else of all that have one."""
    owner, _, leaf = reference.rpartition(".")
    source = model.sources.get(owner.rpartition(".")[2])
    sources = [source] if source is not None else [model.sources[each] for each in lookup_of(model).with_column(leaf)]
    return [column for each in sources if (column := each.column(leaf)) is not None]


def _parameter_value(text: str, parameter: Parameter | None) -> Any:
    """Return a text as its parameter's type has it; one that does not fit stays, to be refused by its name."""
    if parameter is None or parameter.type in (SemanticType.STRING, SemanticType.TIME):
        return text
    if parameter.type is SemanticType.BOOLEAN:
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        return text
