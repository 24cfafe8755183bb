"""Validates semantic layers: what their files say, what the definitions mean, and whether the data agrees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from ktx_cli.core import (
    CancelledError,
    Diagnostic,
    KtxError,
    Record,
    ResultWarning,
    Severity,
    did_you_mean,
    listing,
    monotonic,
    plural,
    severity_counts,
)
from ktx_cli.jobs.semantic.layers import selected_layers
from ktx_cli.project import KtxConfig, Layout
from ktx_cli.semantic import (
    NO_CONNECTION,
    PROBLEM_KEYS,
    Build,
    Expression,
    Graph,
    Name,
    Names,
    Place,
    Plan,
    Query,
    Relationship,
    Rows,
    SemanticError,
    as_column,
    check_model,
    column,
    count_of,
    guard_of,
    is_present,
    join,
    layer_diagnostic,
    layer_ids,
    load_layer,
    load_layers,
    parameter_values,
    placeholder,
    run_test,
    subquery,
    unknown,
)
from ktx_cli.warehouses import Connector, Opener, open_connection

if TYPE_CHECKING:
    from ktx_cli.semantic import Column, Condition, Join, LoadLayer, Model, Source, TestResult

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"

USED_UP = "the time of --budget is used up"

_ABOUT_THE_STATEMENT = frozenset({"query", "read_only", "definition"})
"""Codes of errors that say something about what was sent; others are about the connection."""


@dataclass(frozen=True, slots=True)
class DataCheck(Record):
    """One check on the data: `kind` is `table`, `grain`, `cardinality` or `dangling`.

    `counts`: what was counted. `problems`: what is wrong. `reason`: why it was not made.
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
    """Makes the checks of one model on an open connection; `expired` says when to begin no other."""

    model: Model
    connector: Connector
    expired: Callable[[], bool]
    unusable: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._statements = Statements(self.model)

    def run(self, names: Sequence[str]) -> Iterator[DataCheck]:
        """Make the checks of those sources: first that they are there, then grains, then joins."""
        sources = [self.model.sources[name] for name in names]
        targets = [join.to for source in sources for join in source.joins if join.to in self.model.sources]
        for source in sources:
            yield self._guarded("table", source, source.name, self._table)
        for name in dict.fromkeys(targets):
            if name not in names:
                self._guarded("table", self.model.sources[name], name, self._table)
        for source in sources:
            if source.keyed and source.grain:
                yield self._guarded("grain", source, ", ".join(source.grain), self._grain)
        for source in sources:
            for edge in source.joins:
                if edge.to in self.model.sources:
                    yield from self._join(source, edge)

    def _guarded(self, kind: str, source: Source, subject: str, check: Callable[[Source, str], DataCheck]) -> DataCheck:
        """Return the check, skipped where time is up or what it needs is not there."""
        if self.expired():
            return DataCheck(kind, source.name, subject, SKIPPED, reason=USED_UP)
        if kind != "table" and source.name in self.unusable:
            reason = f"the table or columns of {source.name} are not there"
            return DataCheck(kind, source.name, subject, SKIPPED, reason=reason)
        try:
            return check(source, subject)
        except KtxError as error:
            return self._failed(kind, source, subject, error)

    def _failed(self, kind: str, source: Source, subject: str, error: KtxError) -> DataCheck:
        """Return the check whose statement did not run; errors of the connection itself go on."""
        if error.code in ("timeout", "parameter"):
            return DataCheck(kind, source.name, subject, SKIPPED, reason=error.message)
        if error.code not in _ABOUT_THE_STATEMENT and not isinstance(error, SemanticError):
            raise error
        code = "refused" if error.code == "read_only" else "not_readable"
        message = f"`{source.name}` cannot be read: {error.message}"
        problem = _problem(code, message, source, None, error.hint)
        return DataCheck(kind, source.name, subject, FAILED, problems=(problem,))

    def _table(self, source: Source, subject: str) -> DataCheck:
        """Check that a source's rows can be read, and have the columns that are declared."""
        self.unusable.add(source.name)
        found = self.connector.query(self._statements.columns(source), max_rows=0).columns
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
        hint = f"add what makes a row unique to grain: of {source.name}"
        problem = _problem("grain_not_unique", message, source, source.place, hint)
        return DataCheck("grain", source.name, subject, FAILED, counts, (problem,))

    def _join(self, source: Source, join: Join) -> Iterator[DataCheck]:
        subject = f"{join.to} on {join.on}"
        reason = self._unready(source, join)
        if reason is not None:
            for kind in ("cardinality", "dangling"):
                yield DataCheck(kind, source.name, subject, SKIPPED, reason=reason)
            return
        yield self._guarded("cardinality", source, subject, lambda own, text: self._cardinality(own, join, text))
        yield self._guarded("dangling", source, subject, lambda own, text: self._dangling(own, join, text))

    def _unready(self, source: Source, join: Join) -> str | None:
        gone = [name for name in (source.name, join.to) if name in self.unusable]
        return f"the table or columns of {listing(gone)} are not there" if gone else None

    def _cardinality(self, source: Source, join: Join, subject: str) -> DataCheck:
        """Check that the sides a join says are unique are."""
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
            claim = f"the join from `{source.name}` to `{join.to}` is {join.relationship.value}, but in `{side.name}` "
            hint = f"correct the relationship, or join on what is unique in {side.name}"
            message = f"{claim}{_repeated(repeated, rows)} of {', '.join(names)}"
            problems.append(_problem("cardinality", message, source, join.place, hint))

    def _dangling(self, source: Source, join: Join, subject: str) -> DataCheck:
        rows, null_keys, dangling = self._counts(self._statements.unmatched(source, join))
        counts = {"rows": rows, "null_keys": null_keys, "dangling": dangling}
        if not dangling:
            return DataCheck("dangling", source.name, subject, PASSED, counts)
        many, one = (join.to, source.name) if join.relationship is Relationship.ONE_TO_MANY else (source.name, join.to)
        share = 100 * dangling / rows
        message = f"{dangling:,} of {plural(rows, 'row')} of `{many}` ({share:.2g} %) have a key that `{one}` lacks"
        hint = f"they are in the NULL group of columns of {one}; correct the join or the data if that is not meant"
        problem = _problem("dangling", message, source, join.place, hint, severity=Severity.WARNING)
        return DataCheck("dangling", source.name, subject, FAILED, counts, (problem,))

    def _counts(self, sql: str) -> list[int]:
        return [int(value or 0) for value in self.connector.query(sql, max_rows=1).rows[0]]


def _repeated(values: int, rows: int) -> str:
    return f"{plural(values, 'value')} {'comes' if values == 1 else 'come'} several times, in {rows:,} rows"


def _missing(source: Source, column: Column, found: Sequence[str]) -> Diagnostic:
    near = did_you_mean(column.name, found)
    hint = f"did you mean `{near}`?" if near else f"it has {listing(found, 12)}"
    message = f"`{source.name}` has no column `{column.name}` in the database"
    return _problem("missing_column", message, source, column.place, hint)


def _problem(
    code: str, message: str, source: Source, place: Place | None, hint: str | None, severity: Severity = Severity.ERROR
) -> Diagnostic:
    return layer_diagnostic(severity, code, message, place or source.place or Place(""), hint, source.name)


class Statements:
    """Writes the statements of one model, in its dialect; parameters have their defaults."""

    def __init__(self, model: Model) -> None:
        sources = {name: replace(source, policies=()) for name, source in model.sources.items()}
        self._model = replace(model, sources=sources)
        values, _ = parameter_values(self._model, {}, {})
        self._names = Names(self._model, Graph(self._model), values)

    def columns(self, source: Source) -> str:
        """Return the statement whose columns are those the rows of a source have; it gives no row."""
        build = self._build()
        query = exp.select("*").from_(build.relation(self._model.sources[source.name], "source_rows"), copy=False)
        return self._text(build, query.limit(0, copy=False))

    def repeated(
        self, source: Source, names: Sequence[str], conditions: Iterable[Condition] = (), *, nulls: bool
    ) -> str:
        """Return the statement that counts values which several rows have, and these rows.

        `nulls`: NULL is a value like any other; else rows without one are left out.
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
        """Return the statement that counts the rows of a join's many side, those without a key, and those whose key
        the other side does not have."""
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
        """Return the query of rows that have values there and meet a join's constants."""
        for key in there:
            query = query.where(is_present(key.copy()), copy=False)
        for each in conditions:
            term = exp.EQ(this=self._value(rows, each.column), expression=exp.convert(each.value))
            query = query.where(term, copy=False)
        return query


def _numbered(keys: Iterable[exp.Expr]) -> list[exp.Expr]:
    return [as_column(key.copy(), f"k{number}") for number, key in enumerate(keys)]


def _is_null(value: exp.Expr) -> exp.Is:
    return exp.Is(this=value, expression=exp.null())


DEFAULT_SECONDS: Final = 60.0
"""How long new checks on the data are begun, unless it is asked for more."""


@dataclass(slots=True)
class Validation:
    """What was found. `unread`: why the data of a connection could not be looked at, by its id."""

    sources: list[tuple[str, str]] = field(default_factory=list)
    problems: list[tuple[str, Diagnostic]] = field(default_factory=list)
    checks: list[tuple[str, DataCheck]] = field(default_factory=list)
    unread: dict[str, KtxError] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in the envelope."""
        return {
            "sources": [{"connection": connection, "name": name} for connection, name in self.sources],
            "problems": [{"connection": connection, **each.select(PROBLEM_KEYS)} for connection, each in self.problems],
            "checks": [{"connection": connection, **each.to_json()} for connection, each in self.checks],
            "counts": self.counts(),
        }

    def counts(self) -> dict[str, int]:
        """Return how many problems there are of each severity."""
        return severity_counts(problem for _, problem in self.problems)

    def error(self, *, strict: bool) -> KtxError | None:
        """Return the error to end with: of the problems, else of a connection that could not be looked at.

        `strict`: warnings count as errors do.
        """
        counts = self.counts()
        bad = [severity for severity in (("error", "warning") if strict else ("error",)) if counts[severity]]
        if bad:
            counted = " and ".join(plural(counts[severity], severity) for severity in bad)
            message, hint = f"the semantic layer has {counted}", "change the files at the places named"
            return KtxError(message, hint=hint, details={"counts": counts}, code="semantic_problems")
        return next(iter(self.unread.values()), None)

    def warnings(self) -> list[ResultWarning]:
        """Say which checks were not made for want of time."""
        late = [check for _, check in self.checks if check.reason == USED_UP]
        if not late:
            return []
        what = f"{plural(len(late), 'check')} on the data {'was' if len(late) == 1 else 'were'} not made: {USED_UP}"
        return [ResultWarning("budget", what, hint="give it more seconds: --budget 600, or name the sources")]


def validate_layers(
    layout: Layout,
    config: KtxConfig,
    names: Sequence[str] = (),
    *,
    environ: Mapping[str, str],
    connection: str | None = None,
    data: bool = True,
    seconds: float = DEFAULT_SECONDS,
    load: LoadLayer = load_layer,
    opener: Opener = open_connection,
) -> Validation:
    """Return what is wrong with the named sources (all when there are none), of one connection or of all.

    `data`: look at the rows too, where the connection is in `ktx.yaml`. Raises `UsageError` for a connection without a
    layer, `SemanticError` for a name no source has.
    """
    found = Validation()
    models = _models(layout, config, connection, load)
    problems = {model.connection: [*model.problems, *check_model(model)] for model in models}
    _require_known(names, models, problems)
    of_none: set[Diagnostic] = set()
    until = monotonic() + seconds
    for model in models:
        mine = [name for name in model.sources if not names or name in names]
        found.sources += [(model.connection, name) for name in mine]
        kept = [each for each in problems[model.connection] if not names or each.location.object in names]
        kept = [each for each in kept if each not in of_none]
        of_none |= {each for each in kept if each.code == NO_CONNECTION}
        found.problems += [(model.connection, each) for each in kept]
        if data and mine and model.connection in config.databases():
            _check_data(found, layout, config, model, mine, environ, until, opener)
    return found


def _models(layout: Layout, config: KtxConfig, connection: str | None, load: LoadLayer) -> list[Model]:
    """Return the layers to look at; files of no connection close a database too that has no layer of its own."""
    known = layer_ids(layout)
    candidates = [each for each in config.databases() if connection in (None, each) and each not in known]
    bare = [model for each in candidates if (model := load(layout, config, each)).sealed is not None]
    if connection is not None and bare:
        return bare
    found = [load(layout, config, each) for each in selected_layers(layout, config, connection)]
    return found if any(model.connection in config.connections for model in found) else [*found, *bare[:1]]


def _check_data(
    found: Validation,
    layout: Layout,
    config: KtxConfig,
    model: Model,
    names: Sequence[str],
    environ: Mapping[str, str],
    until: float,
    opener: Opener,
) -> None:
    """Add the checks on the rows of a model, and what they found."""
    try:
        guard = guard_of(layout, config, model.connection, model)
        with guard.open(config, layout=layout, environ=environ, opener=opener) as connector:
            for check in DataChecks(model, connector, lambda: monotonic() >= until).run(names):
                found.checks.append((model.connection, check))
                found.problems += [(model.connection, each) for each in check.problems]
    except CancelledError:
        raise
    except KtxError as error:  # what the files say is told all the same; the command ends with this error
        found.unread[model.connection] = error


def _require_known(names: Sequence[str], models: Sequence[Model], problems: Mapping[str, Sequence[Diagnostic]]) -> None:
    known = {name for model in models for name in model.sources}
    known |= {each.location.object for found in problems.values() for each in found if each.location.object}
    for name in names:
        if name not in known:
            raise unknown("source", name, known)


@dataclass(slots=True)
class TestReport:
    """How the tests ended, each with its connection."""

    __test__ = False

    results: list[tuple[str, TestResult]] = field(default_factory=list)

    @property
    def failed(self) -> int:
        """The number of checks that failed."""
        return sum(not result.passed for _, result in self.results)

    def to_json(self) -> dict[str, Any]:
        """Return the report as it stands in the envelope."""
        return {
            "tests": [{"connection": connection, **result.to_json()} for connection, result in self.results],
            "passed": len(self.results) - self.failed,
            "failed": self.failed,
        }

    def error(self) -> KtxError | None:
        """Return the error to end with where a test failed."""
        if not self.failed:
            return None
        failed = [f"{result.source}.{result.test.name}" for _, result in self.results if not result.passed]
        message = f"{self.failed:,} of {plural(len(self.results), 'test')} failed"
        hint = "compare expected and got; correct the definition, the data or the test"
        return KtxError(message, hint=hint, details={"failed": failed}, code="tests_failed")


def run_tests(
    layout: Layout,
    config: KtxConfig,
    names: Sequence[str] = (),
    *,
    environ: Mapping[str, str],
    connection: str | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> TestReport:
    """Run the tests of the named sources (all when there are none), of one connection or of all.

    Raises `UsageError`, `SemanticError` for a name no source has, and what opening a connection raises; a connection
    without tests is not opened.
    """
    models = load_layers(layout, config, selected_layers(layout, config, connection))
    _require_known(names, models, {})
    report = TestReport()
    for model in models:
        sources = [source for source in model.sources.values() if source.tests and (not names or source.name in names)]
        if not sources:
            continue
        guard = guard_of(layout, config, model.connection, model)
        with guard.open(config, layout=layout, environ=environ) as connector:
            report.results += [
                (model.connection, run_test(model, source.name, test, connector, attributes=attributes or {}))
                for source in sources
                for test in source.tests
            ]
    return report
