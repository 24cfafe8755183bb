"""Check the data in a database against the claims of a semantic layer: columns, grains and joins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from ktx_cli.core import Diagnostic, KtxError, Record, Severity, did_you_mean, listing, plural
from ktx_cli.semantic.answer import compile_query
from ktx_cli.semantic.compile.build import Build, as_column, column, count_of, is_present, join, subquery
from ktx_cli.semantic.compile.rows import Rows
from ktx_cli.semantic.expressions.names import Expression, Name, Names, placeholder
from ktx_cli.semantic.graph import Graph
from ktx_cli.semantic.masks import unmasked
from ktx_cli.semantic.model import Place, Relationship, SemanticError, Visibility, layer_diagnostic
from ktx_cli.semantic.plan.plan import Plan
from ktx_cli.semantic.plan.planner import parameter_values
from ktx_cli.semantic.query import Query
from ktx_cli.warehouses import dialect_named

if TYPE_CHECKING:
    from ktx_cli.semantic.model import Column, Condition, Join, Measure, Model, Source
    from ktx_cli.warehouses import QueryResult

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"

Ask = Callable[[str, int], "QueryResult"]
"""Runs a statement on the database, with a maximum number of rows."""

_ABOUT_THE_STATEMENT: Final = frozenset({"query", "read_only", "definition"})
"""Codes of errors that are about the statement; other errors are about the connection."""

NOT_MADE: Final = frozenset({"timeout", "parameter"})
"""Codes of errors for which a check is skipped: it timed out, or a required value is missing."""

PROTECTED: Final = "it covers rows or values that are hidden from the caller"
"""The reason of a check that is skipped for a caller, because even its outcome would reveal something about them."""


def is_about_statement(error: KtxError) -> bool:
    """Return whether an error is about the statement or its definition rather than the connection."""
    return error.code in _ABOUT_THE_STATEMENT or isinstance(error, SemanticError)


@dataclass(frozen=True, slots=True)
class DataCheck(Record):
    """One check on the data: `kind` is `table`, `grain`, `cardinality` or `dangling`.

    `counts` are the counted rows, `problems` the diagnostics, and `reason` explains why the check was skipped.
    """

    kind: str
    source: str
    subject: str
    status: str
    counts: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[Diagnostic, ...] = ()
    reason: str | None = None

    json_keys = ("check=kind", "source", "subject", "status", "counts", "reason")


@dataclass
class DataChecks:
    """Runs the checks of one model on its database.

    `reason_to_stop` returns the reason to skip all remaining checks, or None. `countable` returns whether counts over
    all rows of a source by some of its columns may be shown.
    """

    model: Model
    ask: Ask
    reason_to_stop: Callable[[], str | None]
    countable: Callable[[Source, Iterable[str]], bool] = lambda source, names: True
    unusable: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._statements = Statements(self.model)

    def run(self, names: Sequence[str]) -> Iterator[DataCheck]:
        """Run the checks of the named sources: first their tables, then grains, then joins."""
        sources = [self.model.sources[name] for name in names]
        targets = [join.to for source in sources for join in source.joins if join.to in self.model.sources]
        for source in sources:
            yield self.table(source)
        for name in dict.fromkeys(targets):
            if name not in names:
                self.table(self.model.sources[name])
        for source in sources:
            if source.keyed and source.grain:
                yield self.grain(source)
        for source in sources:
            for edge in source.joins:
                is_checked = edge.mirrored and edge.to in names  # on the side that declares it
                if edge.to in self.model.sources and not is_checked:
                    yield from self.join(source, edge)

    def table(self, source: Source) -> DataCheck:
        """Check that the rows of a source can be read and have the declared columns."""
        if source.sql is not None and not self.countable(source, ()):
            return DataCheck("table", source.name, source.name, SKIPPED, reason=PROTECTED)
        return self._guarded("table", source, source.name, self._table)

    def grain(self, source: Source) -> DataCheck:
        """Check that no two rows of a source have the same grain."""
        subject = ", ".join(source.grain)
        if not self.countable(source, source.grain):
            return DataCheck("grain", source.name, subject, SKIPPED, reason=PROTECTED)
        return self._guarded("grain", source, subject, self._grain)

    def join(self, source: Source, join: Join) -> Iterator[DataCheck]:
        """Check the declared cardinality of a join, and count the keys that match no row."""
        subject = f"{join.to} on {join.on}"
        reason = self._unready(source, join)
        if reason is not None:
            for kind in ("cardinality", "dangling"):
                yield DataCheck(kind, source.name, subject, SKIPPED, reason=reason)
            return
        yield self._guarded("cardinality", source, subject, lambda own, text: self._cardinality(own, join, text))
        yield self._guarded("dangling", source, subject, lambda own, text: self._dangling(own, join, text))

    def _guarded(self, kind: str, source: Source, subject: str, check: Callable[[Source, str], DataCheck]) -> DataCheck:
        """Run the check, or skip it if time has run out or the table is missing."""
        stopped = self.reason_to_stop()
        if stopped is not None:
            return DataCheck(kind, source.name, subject, SKIPPED, reason=stopped)
        if kind != "table" and source.name in self.unusable:
            reason = f"the table or some columns of {source.name} do not exist"
            return DataCheck(kind, source.name, subject, SKIPPED, reason=reason)
        try:
            return check(source, subject)
        except KtxError as error:
            return self._failed(kind, source, subject, error)

    def _failed(self, kind: str, source: Source, subject: str, error: KtxError) -> DataCheck:
        """Return the failed check. Raises the error if it is about the connection."""
        if error.code in NOT_MADE:
            return DataCheck(kind, source.name, subject, SKIPPED, reason=error.message)
        if not is_about_statement(error):
            raise error
        code = "refused" if error.code == "read_only" else "not_readable"
        message = f"`{source.name}` cannot be read: {error.message}"
        problem = _problem(code, message, source, None, error.hint)
        return DataCheck(kind, source.name, subject, FAILED, problems=(problem,))

    def _table(self, source: Source, subject: str) -> DataCheck:
        self.unusable.add(source.name)
        found = self.ask(self._statements.columns(source), 0).columns
        folded = {name.casefold() for name in found}
        wanted = [each for each in source.columns.values() if each.expr is None]
        missing = [each for each in wanted if each.name.casefold() not in folded]
        counts = {"columns": len(found), "missing": len(missing)}
        if missing:
            problems = tuple(_missing(source, each, found) for each in missing)
            return DataCheck("table", source.name, subject, FAILED, counts, problems)
        self.unusable.discard(source.name)
        return DataCheck("table", source.name, subject, PASSED, counts)

    def _grain(self, source: Source, subject: str) -> DataCheck:
        repeated, rows = self._counts(self._statements.repeated(source, source.grain, nulls=True))
        counts = {"repeated_values": repeated, "their_rows": rows}
        if not repeated:
            return DataCheck("grain", source.name, subject, PASSED, counts)
        message = f"the grain of `{source.name}` is {subject}, but {_repeated(repeated, rows)}"
        hint = f"add the columns that make a row unique to `grain:` of {source.name}"
        problem = _problem("grain_not_unique", message, source, source.grain_place, hint)
        return DataCheck("grain", source.name, subject, FAILED, counts, (problem,))

    def _unready(self, source: Source, join: Join) -> str | None:
        sides = ((source, True, 0), (self.model.sources[join.to], False, 1))
        for side, own, place in sides:
            constants = [each.column for each in join.conditions if each.own is own]
            if not self.countable(side, [*(pair[place] for pair in join.pairs), *constants]):
                return PROTECTED
        gone = [name for name in (source.name, join.to) if name in self.unusable]
        return f"the table or some columns of {listing(gone)} do not exist" if gone else None

    def _cardinality(self, source: Source, join: Join, subject: str) -> DataCheck:
        """Check that the sides that a join declares as unique are unique."""
        counts: dict[str, int] = {}
        problems: list[Diagnostic] = []
        target = self.model.sources[join.to]
        if join.relationship is not Relationship.ONE_TO_MANY:
            self._side(source, join, target, own=False, counts=counts, problems=problems)
        if join.relationship is not Relationship.MANY_TO_ONE:
            self._side(source, join, source, own=True, counts=counts, problems=problems)
        status = FAILED if problems else PASSED
        return DataCheck("cardinality", source.name, subject, status, counts, tuple(problems))

    def _side(
        self, source: Source, join: Join, side: Source, *, own: bool, counts: dict[str, int], problems: list[Diagnostic]
    ) -> None:
        names = [pair[0 if own else 1] for pair in join.pairs]
        constants = [each for each in join.conditions if each.own is own]
        repeated, rows = self._counts(self._statements.repeated(side, names, constants, nulls=False))
        counts |= {f"{side.name}.repeated_values": repeated, f"{side.name}.their_rows": rows}
        if repeated:
            claim = f"the join from `{source.name}` to `{join.to}` is {join.relationship.value}, but in `{side.name}`, "
            hint = f"fix the relationship, or join on columns that are unique in {side.name}"
            message = f"{claim}{_repeated(repeated, rows)} of {', '.join(names)}"
            problems.append(_problem("cardinality", message, source, join.place, hint))

    def _dangling(self, source: Source, join: Join, subject: str) -> DataCheck:
        rows, null_keys, dangling = self._counts(self._statements.unmatched(source, join))
        counts = {"rows": rows, "null_keys": null_keys, "dangling": dangling}
        if not dangling:
            return DataCheck("dangling", source.name, subject, PASSED, counts)
        many, one = (join.to, source.name) if join.relationship is Relationship.ONE_TO_MANY else (source.name, join.to)
        share = 100 * dangling / rows
        message = (
            f"{dangling:,} of {plural(rows, 'row')} of `{many}` ({share:.3g}%) have a key that does not "
            f"exist in `{one}`"
        )
        hint = (
            f"these rows appear as NULL when you group by columns of {one}; fix the join or the data if "
            "that is not intended"
        )
        problem = _problem("dangling", message, source, join.place, hint, severity=Severity.WARNING)
        return DataCheck("dangling", source.name, subject, FAILED, counts, (problem,))

    def _counts(self, sql: str) -> list[int]:
        return [int(value or 0) for value in self.ask(sql, 1).rows[0]]


def _repeated(values: int, rows: int) -> str:
    return f"{plural(values, 'value')} {'occurs' if values == 1 else 'occur'} more than once, in {rows:,} rows"


def _missing(source: Source, column: Column, found: Sequence[str]) -> Diagnostic:
    near = did_you_mean(column.name, found)
    hint = f"did you mean `{near}`?" if near else f"available: {listing(found, 12)}"
    message = f"`{source.name}` has no column `{column.name}` in the database"
    return _problem("missing_column", message, source, column.place, hint)


def _problem(
    code: str, message: str, source: Source, place: Place | None, hint: str | None, severity: Severity = Severity.ERROR
) -> Diagnostic:
    return layer_diagnostic(severity, code, message, place or source.place or Place(""), hint, source.name)


class Statements:
    """Builds the statements for one model in its dialect. Parameters have their default values.

    The statements only count rows or are explained without running, so row policies and visibility do not apply.
    """

    def __init__(self, model: Model) -> None:
        sources = {name: _unlimited(source) for name, source in model.sources.items()}
        self._model = replace(model, sources=sources)
        self._graph = Graph(self._model)
        values, _ = parameter_values(self._model, {})
        self._names = Names(self._model, self._graph, values)

    def columns(self, source: Source) -> str:
        """Return a statement with the columns of a source and no rows."""
        build = self._build()
        query = exp.select("*").from_(build.relation(self._model.sources[source.name], "source_rows"), copy=False)
        return self._text(build, query.limit(0, copy=False))

    def repeated(
        self, source: Source, names: Sequence[str], conditions: Iterable[Condition] = (), *, nulls: bool
    ) -> str:
        """Return the statement that counts the values that several rows share, and these rows.

        If `nulls` is true, NULL counts as a value; otherwise rows with NULL are ignored.
        """
        build = self._build()
        rows = Rows(build, source.name, alias="source_rows")
        keys = [self._value(rows, name) for name in names]
        query = self._kept(rows, rows.select([as_column(count_of(), "n")]), keys if not nulls else [], conditions)
        several = exp.GT(this=count_of(), expression=exp.Literal.number(1))
        query = query.group_by(*(key.copy() for key in keys), copy=False).having(several, copy=False)
        total = exp.Sum(this=column("n", "repeated"))
        counts = [as_column(count_of(), "repeated_values"), as_column(total, "their_rows")]
        return self._text(build, exp.select(*counts, copy=False).from_(subquery(query, "repeated"), copy=False))

    def unmatched(self, source: Source, declared: Join) -> str:
        """Return the statement that counts the rows on a join's many side: all, without a key, and unmatched ones."""
        build = self._build()
        target = self._model.sources[declared.to]
        near, far, own = source, target, True
        if declared.relationship is Relationship.ONE_TO_MANY:
            near, far, own = target, source, False
        pairs = [pair if own else pair[::-1] for pair in declared.pairs]
        near_rows, far_rows = Rows(build, near.name, alias="near_rows"), Rows(build, far.name, alias="far_rows")
        near_keys = [self._value(near_rows, name) for name, _ in pairs]
        far_keys = [self._value(far_rows, name) for _, name in pairs]
        near_constants, far_constants = (
            [each for each in declared.conditions if each.own is side] for side in (own, not own)
        )
        near_query = self._kept(near_rows, near_rows.select(_numbered(near_keys)), (), near_constants)
        far_query = self._kept(far_rows, far_rows.select(_numbered(far_keys)), far_keys, far_constants)
        places = [f"k{number}" for number in range(len(pairs))]
        missing = exp.or_(*(_is_null(column(place, "near_side")) for place in places))
        nowhere = exp.and_(exp.not_(exp.paren(missing.copy())), _is_null(column(places[0], "far_side")))
        counts = {"all_rows": count_of(), "null_keys": count_of(missing), "dangling": count_of(nowhere)}
        query = exp.select(*(as_column(count, name) for name, count in counts.items()), copy=False).from_(
            subquery(near_query, "near_side"), copy=False
        )
        equal = [exp.EQ(this=column(place, "near_side"), expression=column(place, "far_side")) for place in places]
        join(query, subquery(far_query.distinct(copy=False), "far_side"), exp.and_(*equal), "LEFT")
        return self._text(build, query)

    def of_measure(self, source: Source, measure: Measure) -> str:
        """Return the statement that explains a query for a measure, by month if the measure needs a time.

        Raises `SemanticError` if the measure cannot be queried either way.
        """
        asked: dict[str, Any] = {"measures": [f"{source.name}.{measure.name}"]}
        try:
            tree = compile_query(self._model, asked, graph=self._graph).compiled.tree
        except SemanticError as error:
            by_month = {**asked, "dimensions": [{"field": "metric_time", "granularity": "month"}]}
            try:
                tree = compile_query(self._model, by_month, graph=self._graph).compiled.tree
            except SemanticError:
                raise error from None
        return self._explaining(tree)

    def of_rows(self, source: Source, expr: str, what: str) -> str:
        """Return the statement that explains an expression over the rows of a source. Raises `SemanticError`."""
        build = self._build()
        rows = Rows(build, source.name, alias="source_rows")
        value = rows.bind(self._names.defined(self._model.sources[source.name], expr, what))
        return self._explaining(build.with_queries(rows.select([as_column(value, "checked")])))

    def of_condition(self, source: Source, expr: str, what: str) -> str:
        """Return the statement that explains a condition on the rows of a source. Raises `SemanticError`."""
        build = self._build()
        rows = Rows(build, source.name, alias="source_rows")
        condition = rows.bind(self._names.defined(self._model.sources[source.name], expr, what))
        query = rows.select([as_column(count_of(), "checked")]).where(exp.paren(condition), copy=False)
        return self._explaining(build.with_queries(query))

    def _explaining(self, tree: exp.Expr) -> str:
        """Return an EXPLAIN statement, or for a database without EXPLAIN a wrapping query that reads no rows."""
        dialect = self._model.dialect
        if dialect_named(dialect).explain_options is not None:
            return f"EXPLAIN {tree.sql(dialect)}"
        queries = tree.args.get("with_")
        tree.set("with_", None)
        never = exp.EQ(this=exp.Literal.number(1), expression=exp.Literal.number(0))
        query = exp.select("*").from_(subquery(tree, "checked"), copy=False).where(never, copy=False)
        query.set("with_", queries)
        return query.sql(dialect)

    def _build(self) -> Build:
        return Build(self._names, Plan(Query(), (), (), ()))

    def _text(self, build: Build, query: exp.Select) -> str:
        return build.with_queries(query).sql(self._model.dialect)

    def _value(self, rows: Rows, name: str) -> exp.Expr:
        found = rows.fact.column(name)
        of = Name((), name if found is None else found.name)
        return rows.bind(Expression(placeholder(0), (of,), rows.fact.name, name))

    def _kept(
        self, rows: Rows, query: exp.Select, there: Iterable[exp.Expr], conditions: Iterable[Condition]
    ) -> exp.Select:
        """Return the query for rows with values in these columns that meet the constant conditions of a join."""
        for key in there:
            query = query.where(is_present(key.copy()), copy=False)
        for each in conditions:
            term = exp.EQ(this=self._value(rows, each.column), expression=exp.convert(each.value))
            query = query.where(term, copy=False)
        return query


def _unlimited(source: Source) -> Source:
    """Return a copy of a source without row policies, visibility and masks."""
    public = Visibility.PUBLIC
    measures = {name: replace(measure, visibility=public) for name, measure in source.measures.items()}
    return replace(unmasked(source), policies=(), visibility=public, measures=measures)


def _numbered(keys: Iterable[exp.Expr]) -> list[exp.Expr]:
    return [as_column(key.copy(), f"k{number}") for number, key in enumerate(keys)]


def _is_null(value: exp.Expr) -> exp.Is:
    return exp.Is(this=value, expression=exp.null())
