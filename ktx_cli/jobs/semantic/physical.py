"""Checks of a semantic layer on the rows it is about: tables, columns, grains, joins. Every statement only reads.

Policies do not apply: whether a key is unique is a question about all rows, and only counts are told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ktx_cli.connectors.port import Connector
from ktx_cli.context.semantic.errors import SemanticError
from ktx_cli.context.semantic.model import Column, Join, Model, Place, Problem, Relationship, Source
from ktx_cli.core.errors import KtxError
from ktx_cli.core.text import did_you_mean, listing, plural

if TYPE_CHECKING:
    from ktx_cli.jobs.semantic.statements import Statements

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"

USED_UP = "the time of --budget is used up"

_ABOUT_THE_STATEMENT = frozenset({"query", "read_only", "definition"})
"""Codes of errors that say something about what was sent; others are about the connection."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check on the data: `kind` is `table`, `grain`, `cardinality` or `dangling`.

    `counts`: what was counted. `problems`: what is wrong. `reason`: why it was not made.
    """

    kind: str
    source: str
    subject: str
    status: str
    counts: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the check as it stands in an envelope."""
        return {
            "check": self.kind,
            "source": self.source,
            "subject": self.subject,
            "status": self.status,
            "counts": dict(self.counts),
            "reason": self.reason,
        }


class DataChecks:
    """Makes the checks of one model on an open connection; `expired` says when to begin no other."""

    def __init__(self, model: Model, connector: Connector, expired: Callable[[], bool]) -> None:
        from ktx_cli.jobs.semantic.statements import Statements

        self._model = model
        self._connector = connector
        self._expired = expired
        self._statements: Statements = Statements(model)
        self._unusable: set[str] = set()

    def run(self, names: Sequence[str]) -> Iterator[Check]:
        """Make the checks of those sources: first that they are there, then grains, then joins."""
        sources = [self._model.sources[name] for name in names]
        targets = [join.to for source in sources for join in source.joins if join.to in self._model.sources]
        for source in sources:
            yield self._guarded("table", source, source.name, self._table)
        for name in dict.fromkeys(targets):
            if name not in names:
                self._guarded("table", self._model.sources[name], name, self._table)
        for source in sources:
            if source.keyed and source.grain:
                yield self._guarded("grain", source, ", ".join(source.grain), self._grain)
        for source in sources:
            for join in source.joins:
                if join.to in self._model.sources:
                    yield from self._join(source, join)

    def _guarded(self, kind: str, source: Source, subject: str, check: Callable[[Source, str], Check]) -> Check:
        """Return the check, skipped where time is up or what it needs is not there."""
        if self._expired():
            return Check(kind, source.name, subject, SKIPPED, reason=USED_UP)
        if kind != "table" and source.name in self._unusable:
            reason = f"the table or columns of {source.name} are not there"
            return Check(kind, source.name, subject, SKIPPED, reason=reason)
        try:
            return check(source, subject)
        except KtxError as error:
            return self._failed(kind, source, subject, error)

    def _failed(self, kind: str, source: Source, subject: str, error: KtxError) -> Check:
        """Return the check whose statement did not run; errors of the connection itself go on."""
        if error.code in ("timeout", "parameter"):
            return Check(kind, source.name, subject, SKIPPED, reason=error.message)
        if error.code not in _ABOUT_THE_STATEMENT and not isinstance(error, SemanticError):
            raise error
        code = "refused" if error.code == "read_only" else "not_readable"
        message = f"`{source.name}` cannot be read: {error.message}"
        return Check(kind, source.name, subject, FAILED, problems=(_problem(code, message, source, None, error.hint),))

    def _table(self, source: Source, subject: str) -> Check:
        """Check that a source's rows can be read, and have the columns that are declared."""
        self._unusable.add(source.name)
        found = self._connector.query(self._statements.columns(source), max_rows=0).columns
        folded = {name.casefold() for name in found}
        wanted = [each for each in source.columns.values() if each.expr is None]
        missing = [each for each in wanted if each.name.casefold() not in folded]
        counts = {"columns": len(found), "missing": len(missing)}
        if missing:
            problems = tuple(_missing(source, each, found) for each in missing)
            return Check("table", source.name, subject, FAILED, counts, problems)
        self._unusable.discard(source.name)
        return Check("table", source.name, subject, PASSED, counts)

    def _grain(self, source: Source, subject: str) -> Check:
        repeated, rows = self._counts(self._statements.repeated(source, source.grain, nulls=True))
        counts = {"repeated_values": repeated, "their_rows": rows}
        if not repeated:
            return Check("grain", source.name, subject, PASSED, counts)
        message = f"the grain of `{source.name}` is {subject}, but {_repeated(repeated, rows)}"
        hint = f"add what makes a row unique to grain: of {source.name}"
        problem = _problem("grain_not_unique", message, source, source.place, hint)
        return Check("grain", source.name, subject, FAILED, counts, (problem,))

    def _join(self, source: Source, join: Join) -> Iterator[Check]:
        subject = f"{join.to} on {join.on}"
        reason = self._unready(source, join)
        if reason is not None:
            for kind in ("cardinality", "dangling"):
                yield Check(kind, source.name, subject, SKIPPED, reason=reason)
            return
        yield self._guarded("cardinality", source, subject, lambda own, text: self._cardinality(own, join, text))
        yield self._guarded("dangling", source, subject, lambda own, text: self._dangling(own, join, text))

    def _unready(self, source: Source, join: Join) -> str | None:
        gone = [name for name in (source.name, join.to) if name in self._unusable]
        return f"the table or columns of {listing(gone)} are not there" if gone else None

    def _cardinality(self, source: Source, join: Join, subject: str) -> Check:
        """Check that the sides a join says are unique are."""
        counts: dict[str, int] = {}
        problems: list[Problem] = []
        target = self._model.sources[join.to]
        if join.relationship is not Relationship.ONE_TO_MANY:
            self._side(source, join, target, own=False, counts=counts, problems=problems)
        if join.relationship is not Relationship.MANY_TO_ONE:
            self._side(source, join, source, own=True, counts=counts, problems=problems)
        status = FAILED if problems else PASSED
        return Check("cardinality", source.name, subject, status, counts, tuple(problems))

    def _side(
        self, source: Source, join: Join, side: Source, *, own: bool, counts: dict[str, int], problems: list[Problem]
    ) -> None:
        names = [pair[0 if own else 1] for pair in join.pairs]
        constants = [each for each in join.conditions if each.own is own]
        repeated, rows = self._counts(self._statements.repeated(side, names, constants, nulls=False))
        counts |= {f"{side.name}.repeated_values": repeated, f"{side.name}.their_rows": rows}
        if repeated:
            said = f"the join from `{source.name}` to `{join.to}` is {join.relationship.value}, but in `{side.name}` "
            hint = f"correct the relationship, or join on what is unique in {side.name}"
            message = f"{said}{_repeated(repeated, rows)} of {', '.join(names)}"
            problems.append(_problem("cardinality", message, source, join.place, hint))

    def _dangling(self, source: Source, join: Join, subject: str) -> Check:
        rows, null_keys, dangling = self._counts(self._statements.unmatched(source, join))
        counts = {"rows": rows, "null_keys": null_keys, "dangling": dangling}
        if not dangling:
            return Check("dangling", source.name, subject, PASSED, counts)
        many, one = (join.to, source.name) if join.relationship is Relationship.ONE_TO_MANY else (source.name, join.to)
        share = 100 * dangling / rows
        message = f"{dangling:,} of {plural(rows, 'row')} of `{many}` ({share:.2g} %) have a key that `{one}` lacks"
        hint = f"they are in the NULL group of columns of {one}; correct the join or the data if that is not meant"
        problem = _problem("dangling", message, source, join.place, hint, severity="warning")
        return Check("dangling", source.name, subject, FAILED, counts, (problem,))

    def _counts(self, sql: str) -> list[int]:
        return [int(value or 0) for value in self._connector.query(sql, max_rows=1).rows[0]]


def _repeated(values: int, rows: int) -> str:
    return f"{plural(values, 'value')} {'comes' if values == 1 else 'come'} several times, in {rows:,} rows"


def _missing(source: Source, column: Column, found: Sequence[str]) -> Problem:
    near = did_you_mean(column.name, found)
    hint = f"did you mean `{near}`?" if near else f"it has {listing(found, 12)}"
    message = f"`{source.name}` has no column `{column.name}` in the database"
    return _problem("missing_column", message, source, column.place, hint)


def _problem(
    code: str, message: str, source: Source, place: Place | None, hint: str | None, severity: str = "error"
) -> Problem:
    return Problem(severity, code, message, place or source.place or Place(""), hint, source.name)
