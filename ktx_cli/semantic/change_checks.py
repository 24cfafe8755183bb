"""Check a change to a semantic layer against its database.

ktx runs EXPLAIN for each new or changed measure, segment, computed column and query. It checks new grains for
uniqueness, and new joins for their cardinality and for keys without a match. It does not check the rest of the layer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from ktx_cli.core import CancelledError, Diagnostic, KtxError, Severity, listing, monotonic, one_line
from ktx_cli.semantic.data_checks import NOT_MADE, SKIPPED, DataCheck, DataChecks, Statements, is_about_statement
from ktx_cli.semantic.guarded import guard_of
from ktx_cli.semantic.model import Place, SemanticError, Visibility, layer_diagnostic
from ktx_cli.semantic.visible import VisibleModel
from ktx_cli.warehouses import Opener, dialect_named, driver_error_name, ended_at, open_connection

if TYPE_CHECKING:
    from ktx_cli.project import KtxConfig, Layout
    from ktx_cli.semantic.model import Join, Measure, Model, Source
    from ktx_cli.warehouses import Connector, QueryResult

CheckData = Callable[["Model", "Model"], list[Diagnostic]]
"""Takes a semantic layer before and after a change; returns the diagnostics of the database checks."""

SECONDS: Final = 5.0
"""The time limit for the checks of one change."""

NOT_CHECKED: Final = "not_checked"
"""The code of the warning that lists definitions that ktx could not check."""

MOST_DANGLING: Final = 0.95
"""Share of keys without a matching row above which a join probably uses the wrong columns."""

FEWEST_ROWS: Final = 20
"""Minimum number of rows for the share to be meaningful."""

_NO_ANSWER: Final = frozenset({"query", "grain", "hidden", "policy"})
"""Codes of errors that are about a check's statement, not about the checked definition."""

_QUOTED: Final = re.compile(r"'([^']*)'|\"([^\"]*)\"")


class ChangeChecks:
    """Checks changes against the databases of a project, and caches the results of statements.

    `seconds` is the time limit for the checks of one change. A warning lists the definitions that were not checked.
    """

    def __init__(
        self,
        layout: Layout,
        config: KtxConfig,
        environ: Mapping[str, str],
        *,
        seconds: float = SECONDS,
        opener: Opener = open_connection,
    ) -> None:
        self._layout, self._config, self._environ = layout, config, environ
        self._seconds, self._opener = seconds, opener
        self._answers: dict[tuple[str, str], QueryResult | KtxError] = {}

    def __call__(self, before: Model, after: Model) -> list[Diagnostic]:
        """Return the errors and warnings for a change, including a warning that lists unchecked definitions."""
        if after.connection not in self._config.databases():
            return []
        with ExitStack() as stack:
            change = _Change(before, after, self._asking(after, stack))
            return list(change.check())

    def _asking(self, model: Model, stack: ExitStack) -> _Asking:
        """Return the query function for a model's database. The connection opens with the first new statement."""

        def connect() -> Connector:
            guard = guard_of(self._layout, self._config, model.connection, model)
            opened = guard.open(self._config, layout=self._layout, environ=self._environ, opener=self._opener)
            return stack.enter_context(opened)

        return _Asking(
            model.connection, model.dialect, connect, self._answers, monotonic() + self._seconds, self._seconds
        )


@dataclass
class _Asking:
    """Queries one database until a deadline, and caches the results."""

    connection: str
    dialect: str
    connect: Callable[[], Connector]
    answers: dict[tuple[str, str], QueryResult | KtxError]
    until: float
    seconds: float
    connector: Connector | None = None
    unreachable: KtxError | None = None

    def __call__(self, sql: str, most: int) -> QueryResult:
        """Return the result of a statement, or raise its error. Both are cached."""
        key = (self.connection, sql)
        if key not in self.answers:
            self._ask(key, sql, most)
        answer = self.answers[key]
        if isinstance(answer, KtxError):
            raise answer
        return answer

    def _ask(self, key: tuple[str, str], sql: str, most: int) -> None:
        if self.unreachable is not None:
            raise self.unreachable
        if monotonic() >= self.until:
            raise KtxError(f"the time limit of {self.seconds:g} seconds for these checks was reached", code="timeout")
        try:
            if self.connector is None:
                self.connector = self.connect()
            with ended_at(self.connector, self.until):
                self.answers[key] = self.connector.query(sql, max_rows=most)
        except CancelledError:
            raise
        except KtxError as error:
            if error.code in NOT_MADE:
                raise
            if not is_about_statement(error):
                self.unreachable = error
                raise
            self.answers[key] = SemanticError(_safe_text(error, sql, self.dialect), hint=error.hint, code=error.code)


@dataclass
class _Change:
    """A change to a layer during its check. `unchecked` maps reasons to the definitions that were not checked."""

    before: Model
    after: Model
    ask: _Asking
    unchecked: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._checks = DataChecks(self.after, self.ask, lambda: None)
        self._statements = Statements(self.after)
        self._old_statements: Statements | None = None
        self._shown = VisibleModel(self.after, internal=True)
        self._hides = any(_hides(source) for source in self.after.sources.values())

    def check(self) -> Iterator[Diagnostic]:
        """Yield the diagnostics for the change by source, and finally a warning about unchecked definitions."""
        place = None
        for name, source in self.after.sources.items():
            old = self.before.sources.get(name)
            if old != source:
                place = place or _place_of(source)
                yield from self._source(old, source)
        for reason, names in self.unchecked.items():
            message = f"not checked on the database: {listing(names, 10)}: {one_line(reason, 300)}"
            hint = "run a query to check it before you rely on it"
            yield layer_diagnostic(Severity.WARNING, NOT_CHECKED, message, place or Place(""), hint)

    def _source(self, old: Source | None, source: Source) -> Iterator[Diagnostic]:
        others = old is None or _rows_of(old) != _rows_of(source)
        if others and not source.generated:
            problems = self._made(f"the rows of `{source.name}`", self._checks.table, source)
            yield from problems
            if any(each.severity is Severity.ERROR for each in problems):
                return  # all other checks read these rows
        yield from self._columns(None if others else old, source)
        yield from self._segments(None if others else old, source)
        yield from self._measures(old, source)
        if source.keyed and source.grain and (old is None or others or old.grain != source.grain or not old.keyed):
            what = f"the grain of `{source.name}`"
            if self._may_count([(source, name) for name in source.grain], what):
                yield from self._made(what, self._checks.grain, source)
        known = set() if old is None or others else {_claim(join) for join in old.joins}
        for join in source.joins:
            if join.to in self.after.sources and _claim(join) not in known:
                yield from self._join(source, join)

    def _columns(self, old: Source | None, source: Source) -> Iterator[Diagnostic]:
        for column in source.columns.values():
            known = None if old is None else old.columns.get(column.name)
            if column.expr is not None and (known is None or known.expr != column.expr):
                expr, what = column.expr, f"column `{column.name}` of `{source.name}`"
                statement = lambda expr=expr, what=what: self._statements.of_rows(source, expr, what)  # noqa: E731
                yield from self._explained(source, what, column.place, statement)

    def _segments(self, old: Source | None, source: Source) -> Iterator[Diagnostic]:
        for segment in source.segments.values():
            known = None if old is None else old.segments.get(segment.name)
            if known is None or known.expr != segment.expr:
                expr, what = segment.expr, f"segment `{segment.name}` of `{source.name}`"
                statement = lambda expr=expr, what=what: self._statements.of_condition(source, expr, what)  # noqa: E731
                yield from self._explained(source, what, segment.place, statement)

    def _measures(self, old: Source | None, source: Source) -> Iterator[Diagnostic]:
        """Yield the diagnostics for the measures whose statement changes."""
        alike = old is not None and _context_of(old) == _context_of(source)
        for measure in source.measures.values():
            known = None if old is None else old.measures.get(measure.name)
            if alike and known is not None and _meaning(known) == _meaning(measure):
                continue
            before = None if known is None or old is None else self._statement_before(old, known)
            what = f"measure `{measure.name}` of `{source.name}`"
            statement = lambda measure=measure: self._statements.of_measure(source, measure)  # noqa: E731
            yield from self._explained(source, what, measure.place, statement, before)

    def _statement_before(self, old: Source, measure: Measure) -> str | None:
        self._old_statements = self._old_statements or Statements(self.before)
        try:
            return self._old_statements.of_measure(old, measure)
        except SemanticError:
            return None

    def _explained(
        self, source: Source, what: str, place: Place | None, statement: Callable[[], str], before: str | None = None
    ) -> Iterator[Diagnostic]:
        """Yield the database error for a definition, unless its statement has not changed."""
        sql = ""
        try:
            sql = statement()
            if sql != before:
                self.ask(sql, 1)
        except SemanticError as error:
            if error.code == "parameter":
                self._not_made(error.problem, what)
            elif sql and error.code == "read_only":
                yield _error("refused", f"{what} is not allowed: {error.problem}", source, place, error.hint)
            elif sql:
                hint = "fix its expression: aggregate columns of a suitable type, or cast them"
                message = f"the database rejects {what}: {error.problem}"
                yield _error("not_executable", message, source, place, hint)
            elif error.code not in _NO_ANSWER:
                yield _error(error.code, error.problem, source, place, error.hint)
        except CancelledError:
            raise
        except KtxError as error:
            self._not_made(error.problem, what)

    def _may_count(self, keys: Iterable[tuple[Source, str]], what: str, *, constants: bool = False) -> bool:
        """Return whether counting rows by these columns is allowed. If not, record the check as skipped.

        Counts by a hidden column, by an expression or for a constant could reveal hidden data.
        """
        if not self._hides:
            return True
        columns = [(source, column) for source, name in keys if (column := source.column(name)) is not None]
        hidden = any(self._shown.visibility(*each) is Visibility.HIDDEN for each in columns)
        if hidden or constants or any(column.expr is not None for _, column in columns):
            self._not_made("this connection has hidden data, which the counts could reveal", what)
            return False
        return True

    def _made(self, what: str, check: Callable[[Source], DataCheck], source: Source) -> list[Diagnostic]:
        return list(self._found(what, source, lambda: [check(source)]))

    def _join(self, source: Source, join: Join) -> Iterator[Diagnostic]:
        what = f"the join from `{source.name}` to `{join.to}` on {join.on}"
        target = self.after.sources[join.to]
        keys = [pair for own, other in join.pairs for pair in ((source, own), (target, other))]
        if not self._may_count(keys, what, constants=bool(join.conditions)):
            return
        yield from self._found(what, source, lambda: [_judged(each, join) for each in self._checks.join(source, join)])

    def _found(self, what: str, source: Source, make: Callable[[], list[DataCheck]]) -> Iterator[Diagnostic]:
        """Yield the diagnostics of checks. If the connection fails, record them as skipped."""
        try:
            checks = make()
        except CancelledError:
            raise
        except KtxError as error:
            self._not_made(error.problem, what)
            return
        for check in checks:
            if check.status == SKIPPED:
                self._not_made(check.reason or "", what)
            yield from check.problems

    def _not_made(self, reason: str, what: str) -> None:
        names = self.unchecked.setdefault(reason, [])
        if what not in names:
            names.append(what)


def _judged(check: DataCheck, join: Join) -> DataCheck:
    """Return the check of a join, with an error if nearly all keys match no row."""
    if check.kind != "dangling" or not check.problems:
        return check
    keys = check.counts["rows"] - check.counts["null_keys"]
    if keys < FEWEST_ROWS or check.counts["dangling"] < MOST_DANGLING * keys:
        return check
    pairs = listing([f"`{own}` and `{join.to}.{other}`" for own, other in join.pairs])
    hint = f"{pairs} do not have the same values: join on columns that do, or remove the join"
    errors = (Diagnostic(each.code, Severity.ERROR, each.message, each.location, hint) for each in check.problems)
    return replace(check, problems=tuple(errors))


def _safe_text(error: KtxError, sql: str, dialect: str) -> str:
    """Return a database error's message without anything that could be a row value."""
    driver, text = error.__cause__, one_line(error.problem, 400)
    if driver is None or dialect_named(dialect).is_statement_error(driver, sql):
        return text
    if not sql.startswith("EXPLAIN "):
        return f"the database rejected the statement with {driver_error_name(driver)}"
    known = sql.casefold()
    return _QUOTED.sub(lambda each: each[0] if (each[1] or each[2] or "").casefold() in known else "'…'", text)


def _error(code: str, message: str, source: Source, place: Place | None, hint: object) -> Diagnostic:
    text = None if hint is None else str(hint)
    return layer_diagnostic(Severity.ERROR, code, message, place or _place_of(source), text, source.name)


def _hides(source: Source) -> bool:
    hidden = Visibility.HIDDEN
    columns = (column.visibility for column in source.columns.values())
    return bool(source.policies) or source.has_masks or source.visibility is hidden or hidden in columns


def _place_of(source: Source) -> Place:
    return source.place or Place("")


def _rows_of(source: Source) -> tuple[object, ...]:
    """Return the properties that determine the rows and columns of a source."""
    own = tuple(name for name, column in source.columns.items() if column.expr is None)
    return source.table, source.sql, own, source.parameters


def _context_of(source: Source) -> tuple[object, ...]:
    """Return the properties of a source on which its measures depend."""
    columns = tuple((name, column.type, column.expr) for name, column in source.columns.items())
    segments = tuple((name, segment.expr) for name, segment in source.segments.items())
    measures = tuple((name, _meaning(measure)) for name, measure in source.measures.items())
    joins = frozenset(_claim(join) for join in source.joins)
    return _rows_of(source), columns, segments, measures, joins, source.grain, source.time_column


def _meaning(measure: Measure) -> Measure:
    bare = replace(measure, description=None, label=None, questions=(), synonyms=())
    return replace(bare, unit=None, format=None, place=None)


def _claim(join: Join) -> tuple[object, ...]:
    """Return the properties of a join that make claims about the data."""
    return join.to, join.pairs, join.relationship, join.conditions
