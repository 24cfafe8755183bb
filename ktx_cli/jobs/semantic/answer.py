"""Asks the semantic layer of a connection a question, or a database one statement; both are guarded and only read."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from ktx_cli.core import (
    Command,
    Hint,
    KtxError,
    NumberFormat,
    ResultWarning,
    SourceError,
    UsageError,
    column_format,
    json_value,
    listing,
    monotonic,
    plural,
    row_formats,
)
from ktx_cli.project import DATABASE_SOURCE, KtxConfig, Layout, WorkingTree, connection_of
from ktx_cli.semantic import (
    DEFAULT_BYTES,
    DEFAULT_LIMIT,
    UNCACHED,
    ConnectionGuard,
    broken_files_named,
    database_of,
    json_rows,
    layer_ids,
    load_layer,
    quoted,
    require_defined,
)
from ktx_cli.warehouses import (
    CachingConnector,
    Opener,
    QueryResult,
    SemanticType,
    TableRef,
    decimal_places,
    dialect_named,
    names_are_missing,
    open_connection,
    row_size,
)

if TYPE_CHECKING:
    from ktx_cli.semantic import (
        Answer,
        Column,
        GuardedConnector,
        LoadLayer,
        Model,
        Parameter,
        QueryServices,
        Source,
        Verified,
    )


def the_layer(layout: Layout, config: KtxConfig, connection: str | None) -> str:
    """Return the connection to ask: the one named, else the only usable one with a semantic layer.

    Raises `UsageError` where it is not in `ktx.yaml` or has no layer, and where there is none, or several to choose;
    `ConfigError` where it is disabled.
    """
    if connection is not None:
        _require_layer(layout, config, connection)
        return connection
    known = [each for each in layer_ids(layout) if each in config.connections]
    found = [each for each in known if each not in config.disabled()]
    for disabled in () if found else known:
        connection_of(config, disabled)
    if len(found) == 1:
        return found[0]
    if not found:
        from ktx_cli.jobs.setup.request import how_to_connect

        hint = Command("ingest") if config.databases() else how_to_connect(layout.root)
        raise UsageError("there is no semantic layer yet", hint=hint)
    choose = f"choose one: {listing(f'-c {each}' for each in found)}"
    message = f"there are {len(found)} semantic layers: {listing(found)}"
    raise UsageError(message, hint=choose, details={"candidates": found})


def only_database(layout: Layout, config: KtxConfig) -> str:
    """Return the id of the project's database; `UsageError` when there is none or more than one."""
    known = sorted(config.databases())
    if len(known) == 1:
        return known[0]
    for entry in () if known else config.disabled().values():
        raise entry.error()
    if not known:
        from ktx_cli.jobs.setup.request import how_to_connect

        raise UsageError("ktx.yaml names no database to ask", hint=how_to_connect(layout.root))
    hint = f"choose one: {listing(f'-c {each}' for each in known)}"
    raise UsageError(f"there are {len(known)} databases: {listing(known)}", hint=hint)


def some_layers(layout: Layout, config: KtxConfig, connection: str | None) -> list[str]:
    """Return the connections whose files to read: the one named, else all; `UsageError` for one without files."""
    known = layer_ids(layout)
    if connection is None:
        return known
    if connection not in known:
        _require_layer(layout, config, connection)
    return [connection]


def _require_layer(layout: Layout, config: KtxConfig, connection: str) -> None:
    connection_of(config, connection)
    known = layer_ids(layout)
    if connection not in known:
        is_source = bool(known) and connection not in config.databases()
        hint = (
            f"it is a context source; these have one: {listing(known)}" if is_source else Command("ingest", connection)
        )
        raise UsageError(f"connection `{connection}` has no semantic layer yet", hint=hint)


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
        where = "" if first is None or not values else f", the first is {_cell(first)}"
        checked = "" if verified is None else f" of {verified['numbers']:,} checked"
        numbers = f"{plural(self.mismatches, 'number')}{checked}"
        hint = Hint(
            "do not use the answer: a definition or the compiler is wrong. --json lists what differs in "
            "receipt.verified, {} shows how it was computed; report it with both",
            Command("sl", "explain"),
        )
        message = f"{numbers} came out differently when recomputed from raw rows{where}"
        details = {"verified": verified} if values else {"mismatches": self.mismatches}
        return KtxError(message, hint=hint, details=details, code="not_verified")


def _cell(mismatch: Mapping[str, Any]) -> str:
    """Return one number that differs, in words."""
    row = ", ".join("NULL" if each is None else str(each) for each in mismatch["row"])
    values = ("NULL" if each is None else each for each in (mismatch["answered"], mismatch["verified"]))
    answered, again = values
    return f"`{mismatch['column']}`{f' of {row}' if row else ''}: {answered}, recomputed {again}"


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
) -> LayerAnswer:
    """Return the answer of a question.

    `suggest`: whether to warn about filter values that no row has, and whether other values may be named (None: no
    warning). With `scan.privacy: strict` none is named. `formats`: find out how numbers are printed.
    Raises `UsageError` (which connection), `SemanticError` where there is no right answer, `StatementRefusedError`,
    and what opening a connection raises.
    """
    from ktx_cli.semantic import ask_prepared

    started = monotonic()
    connection = the_layer(layout, config, question.connection)
    model = services.load(layout, config, connection)
    guard = services.guard(layout, config, connection, model)
    query = shaped(question, model)
    loaded = (monotonic() - started) * 1000
    asked_at = now or datetime.now(UTC)
    opened = guard.open(config, layout=layout, environ=environ, opener=services.opener)
    with broken_files_named(model), opened as connector:
        begun = monotonic()
        prepared = services.prepare(model, query, attributes=question.attributes, now=asked_at)
        require_defined(config, connection, prepared.asked.plan)
        probing = None if services.query_cache is None else CachingConnector(connector, services.query_cache)
        with _schema_changes_named(connection):
            answer = ask_prepared(prepared, connector, probing=probing, compiled_in=monotonic() - begun)
        receipt = dict(answer.receipt)
        again = _verified(answer, connector, question.verified)
        named = suggest is True and config.scan.privacy != "strict"
        warnings = [] if suggest is None else _value_warnings(answer, connector, layout, connection, suggest=named)
    receipt["timing_ms"] = {"load": round(loaded, 2), **receipt["timing_ms"]}
    if again is not None:
        receipt["timing_ms"]["verify"] = round(again.milliseconds, 2)
    receipt["verified"] = None if again is None else again.to_json()
    rows, too_large = json_rows(answer.rows, max_bytes)
    totals = None if answer.totals is None else json_rows([answer.totals])[0][0]
    return LayerAnswer(
        connection,
        tuple(answer.columns),
        rows,
        answer.sql,
        receipt,
        None if totals is None else dict(zip(answer.columns[-len(totals) :], totals, strict=True)),
        _cut(answer, too_large, query.get("limit", DEFAULT_LIMIT)),
        0 if again is None else len(again.mismatches),
        tuple(warnings),
        _formats(answer, layout, connection) if formats else (),
    )


@contextlib.contextmanager
def _schema_changes_named(connection: str) -> Iterator[None]:
    """Say where to look when a database refuses a statement that ktx compiled: nobody wrote it who could correct it."""
    try:
        yield
    except SourceError as error:
        if error.code == "query" and names_are_missing(error):
            diff = Command("diff", connection)
            error.hint = Hint("`{}` shows what changed in the database since the last scan", diff)
        elif error.code == "query":
            error.hint = Hint("`{}` shows the statement that ktx wrote", Command("sl", "explain"))
        raise


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


def _cut(answer: Answer, too_large: bool, limit: int) -> str | None:
    """Return why rows were left out; an answer cut before its limit held all the bytes a session may."""
    if too_large or (answer.truncated and len(answer.rows) < limit):
        return "bytes"
    return "rows" if answer.truncated else None


def _verified(answer: Answer, connector: GuardedConnector, wanted: bool | None) -> Verified | None:
    """Recompute every row of an answer, none, or (`wanted` None) a sample where its numbers are over time."""
    from ktx_cli.semantic import verify, verify_sample

    asked = answer.asked
    if asked is None or wanted is False:
        return None

    def ask_again() -> Sequence[Sequence[Any]]:
        return connector.query(asked.sql, max_rows=asked.plan.query.limit + 1).rows

    build = asked.compiled.build
    if wanted:
        return verify(build, answer.rows, connector, ask_again=ask_again)
    seconds = answer.receipt["timing_ms"]["execute"] / 1000
    return verify_sample(build, answer.rows, connector, statement_seconds=seconds, ask_again=ask_again)


_TIME: Final = "metric_time"


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and by whom.

    `query`: as JSON has it. `grain`: for the dimensions that are times and have none; where none is a time,
    `metric_time` becomes one. `parameters`: texts, read as their declarations say. `attributes`: of the caller, for
    policies. `verified`: whether every row of the answer is recomputed from raw rows; None: a sample of them, where
    numbers count rows of another time than their period.
    """

    query: Mapping[str, Any]
    connection: str | None = None
    grain: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    verified: bool | None = None


def read_attributes(texts: Sequence[str] | None) -> dict[str, Any]:
    """Return the attributes of `NAME=TEXT` and `NAME:=JSON`; `UsageError` for anything else."""
    found: dict[str, Any] = {}
    for text in texts or ():
        name, equal, value = text.partition("=")
        if not equal or not name.strip():
            raise UsageError(f"--user-attribute takes NAME=VALUE, not `{text}`", hint="--user-attribute region=EU")
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


def shaped(question: Question, model: Model) -> dict[str, Any]:
    """Return the query with the grain and the parameters in their places."""
    query = dict(question.query)
    if question.grain is not None:
        query["dimensions"] = _with_grain(list(query.get("dimensions") or ()), question.grain, model)
    if question.parameters:
        declared = {name: each for source in model.sources.values() for name, each in source.parameters.items()}
        typed = {name: _typed(text, declared.get(name)) for name, text in question.parameters.items()}
        query["parameters"] = {**(query.get("parameters") or {}), **typed}
    return query


def _with_grain(dimensions: list[Any], grain: str, model: Model) -> list[Any]:
    cut = [{**_object(each), "granularity": grain} if _is_bare_time(each, model) else each for each in dimensions]
    has_time = any(each != other for each, other in zip(cut, dimensions, strict=True))
    return cut if has_time else [*cut, {"field": _TIME, "granularity": grain}]


def _object(dimension: Any) -> dict[str, Any]:
    return {"field": dimension} if isinstance(dimension, str) else dict(dimension)


def _is_bare_time(dimension: Any, model: Model) -> bool:
    """Whether a dimension is a time that is not cut yet."""
    if not isinstance(dimension, str | dict):
        return False
    asked = _object(dimension)
    if asked.get("granularity") is not None or not isinstance(asked.get("field"), str):
        return False
    return asked["field"] == _TIME or any(each.type is SemanticType.TIME for each in _columns(asked["field"], model))


def _columns(reference: str, model: Model) -> list[Column]:
    """Return the columns a reference may mean: of the source it names, else of all that have one."""
    owner, _, leaf = reference.rpartition(".")
    source = model.sources.get(owner.rpartition(".")[2])
    sources = [source] if source is not None else model.sources.values()
    return [column for each in sources if (column := each.column(leaf)) is not None]


def _typed(text: str, parameter: Parameter | None) -> Any:
    """Return a text as its parameter's type has it; one that does not fit stays, to be refused by its name."""
    if parameter is None or parameter.type in (SemanticType.STRING, SemanticType.TIME):
        return text
    if parameter.type is SemanticType.BOOLEAN:
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        return text


HOW: Final[Mapping[str, str]] = {
    "where": "keeps rows",
    "semi_join": "keeps rows that have such a joined row",
    "having": "keeps finished rows",
    "segment": "a segment of the question",
}
"""What a filter does, by where it stands."""


@dataclass(frozen=True, slots=True)
class Explained:
    """How a question would be answered; `receipt` is that of the answer, without numbers of rows."""

    connection: str
    sql: str
    totals_sql: str | None
    columns: tuple[Mapping[str, Any], ...]
    receipt: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in the envelope."""
        return {
            "connection": self.connection,
            "columns": [dict(each) for each in self.columns],
            "steps": list(self.steps()),
            "sql": self.sql,
            "totals_sql": self.totals_sql,
            "receipt": dict(self.receipt),
        }

    def steps(self) -> Iterator[str]:
        """Yield the plan in words, a line a step."""
        yield from fact_lines(self.receipt)
        yield from (f"then: keeps finished rows where {each}" for each in self.receipt["having"])
        yield from (f"note: {each}" for each in self.receipt["notes"])


def explain_question(
    layout: Layout, config: KtxConfig, question: Question, *, now: datetime | None = None, load: LoadLayer = load_layer
) -> Explained:
    """Return how a question would be answered; `SemanticError` where it has no right answer."""
    from ktx_cli.semantic import compile_query, receipt

    connection = the_layer(layout, config, question.connection)
    database_of(config, connection)
    model = load(layout, config, connection)
    with broken_files_named(model):
        asked = compile_query(model, shaped(question, model), attributes=question.attributes, now=now)
    require_defined(config, connection, asked.plan)
    columns = [
        {"name": each.name, "kind": "dimension", "of": each.asked, "granularity": each.grain}
        for each in asked.plan.dimensions
    ]
    columns += [
        {"name": each.name, "kind": "measure", "of": each.ref or each.asked, "description": each.description}
        | {"unit": each.unit, "format": each.format}
        for each in asked.plan.outputs
    ]
    totals = None if asked.totals is None else asked.totals.sql
    built = receipt(asked.compiled.build, asked.sql, (), {})
    return Explained(connection, asked.sql, totals, tuple(columns), built)


def fact_lines(receipt: Mapping[str, Any]) -> Iterator[str]:
    """Yield what an answer is made of: every fact with its aggregates, joins and conditions, a line each.

    A measure with conditions of its own has them below it.
    """
    for fact in receipt["facts"]:
        yield f"fact {fact['fact']}{_rows(fact)}: {', '.join(fact['aggregates'])}"
        yield from (f"  path {each['path']} ({each['why']})" for each in fact["paths"])
        shared = [each for each in fact["filters"] if each["measure"] is None]
        yield from (f"  filter {each['expr']} ({HOW.get(each['how'], each['how'])})" for each in shared)
        for measure in fact["measures"]:
            yield from _measure_lines(fact["fact"], measure)
        yield from (_unmatched(each) for each in fact["unmatched"])


def _measure_lines(fact: str, measure: Mapping[str, Any]) -> Iterator[str]:
    own = [each for each in measure["filters"] if each["measure"] is not None]
    if not own:
        return
    earlier = "" if measure["earlier"] is None else f", {measure['earlier']} earlier"
    name = measure["measure"].removeprefix(f"{fact}.")
    yield f"  measure {name}{earlier}{_rows(measure)}: {measure['aggregate']}"
    for each in own:
        around = "" if each["measure"] == measure["measure"] else f" (of {each['measure'].removeprefix(f'{fact}.')})"
        yield f"    filter {each['expr']}{around}"


def _rows(counted: Mapping[str, Any]) -> str:
    return "" if counted["rows"] is None else f", {plural(counted['rows'], 'row')}"


def verification_lines(verified: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield what was recomputed of an answer and what was not, a line each."""
    if verified is None:
        return
    if verified["rows"]:
        rows = f"{verified['rows']:,} of {plural(verified['of'], 'row')}"
        why = f" ({verified['stopped']})" if verified["stopped"] else " (a sample)" if _is_part(verified) else ""
        yield f"verified: {plural(verified['numbers'], 'number')} in {rows}, recomputed from raw rows{why}"
    elif verified["stopped"]:
        yield f"not verified: {verified['stopped']}"
    yield from (f"not verified: `{name}`: {why}" for name, why in verified["skipped"].items())


def _is_part(verified: Mapping[str, Any]) -> bool:
    return bool(verified["sampled"]) and verified["rows"] < verified["of"]


def _unmatched(join: Mapping[str, Any]) -> str:
    missing = f"{join['null_keys']:,} without a key, {join['dangling']:,} with one that leads nowhere"
    return f"  unmatched {join['join']}: {missing}"


def choices_of(details: Mapping[str, Any]) -> Sequence[tuple[str, ...]]:
    """Return what an error lets choose from, a row each: the word to use and what it stands for."""
    choices = details.get("choices") or ()
    if choices:
        return [(str(each["via"]), str(each["path"])) for each in choices]
    return [(str(each), "") for each in details.get("candidates") or ()]


DEFAULT_ROWS: Final = 1000
"""How many rows an answer has at most, unless it is asked for more."""

MOST_ROWS: Final = 100_000
"""How many rows can be asked for."""


@dataclass(frozen=True, slots=True)
class SqlAnswer:
    """The rows of a statement, their values as JSON takes them.

    `sql` is what was sent. `cut`: whether rows were left out because there were too many (`rows`) or because they were
    too large (`bytes`); None when the answer is whole. `explains`: whether the rows are a plan. `formats`: how the
    numbers of each column are printed, where that was asked for.
    """

    connection: str
    dialect: str
    sql: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    cut: Literal["rows", "bytes"] | None = None
    explains: bool = False
    formats: tuple[NumberFormat | None, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the answer as it stands in the envelope."""
        return {
            "connection": self.connection,
            "dialect": self.dialect,
            "sql": self.sql,
            "columns": list(self.columns),
            "rows": [list(row) for row in self.rows],
            "row_count": len(self.rows),
            "truncated": self.cut is not None,
            "cut": self.cut,
        }


def run_sql(
    layout: Layout,
    config: KtxConfig,
    sql: str,
    *,
    environ: Mapping[str, str],
    connection: str | None = None,
    max_rows: int = DEFAULT_ROWS,
    max_bytes: int = DEFAULT_BYTES,
    opener: Opener = open_connection,
    formats: bool = False,
) -> SqlAnswer:
    """Run one statement of a person or an agent on a connection (the only database when it is None).

    Raises `UsageError` (no such connection, which of several, `query_policy`, `max_rows`), `StatementRefusedError`
    before the connection is opened, `NotSupportedError`, `SecretError`, `ConfigError` or `SourceError`; the last too
    (code `query`) where the first row alone is larger than `max_bytes`.
    """
    if not 1 <= max_rows <= MOST_ROWS:
        raise UsageError(f"{max_rows:,} rows cannot be asked for", hint=f"from 1 to {MOST_ROWS:,}")
    chosen = connection or only_database(layout, config)
    guard = ConnectionGuard.of(layout, config, chosen)
    checked = guard.check(sql, max_rows=max_rows)
    with guard.open(config, layout=layout, environ=environ, opener=opener) as connector:
        if dialect_named(guard.dialect).has_several_servers:
            checked = connector.checked(sql, max_rows=max_rows)
        found = connector.send(checked, max_rows=max_rows)
    rows, too_large = json_rows(found.rows, max_bytes)
    if not rows and (too_large or found.truncated):
        raise _too_large(found, max_bytes)
    by_bytes = too_large or (found.truncated and len(found.rows) < max_rows)
    cut: Literal["rows", "bytes"] | None = "bytes" if by_bytes else "rows" if found.truncated else None
    styles = row_formats(found.columns, found.rows) if formats else ()
    return SqlAnswer(chosen, guard.dialect, checked.sql, found.columns, rows, cut, checked.explains, styles)


def _too_large(found: QueryResult, max_bytes: int) -> SourceError:
    """Return the error for a first row that does not fit, which names its largest value.

    Of a row that was too large to be read at all the columns are known, and no value.
    """
    sizes = [row_size((json_value(value),)) for row in found.rows[:1] for value in row]
    if sizes:
        largest = found.columns[sizes.index(max(sizes))]
        problem = f"over {max_bytes:,} bytes: `{largest}` alone has {max(sizes):,}"
    else:
        largest = found.columns[0]
        problem = f"too large to read: {listing(f'`{column}`' for column in found.columns)}"
    hint = f"select it shortened, for example: substr({quoted(largest)}, 1, 1000)"
    return SourceError(f"the first row is {problem}", hint=hint, code="query")
