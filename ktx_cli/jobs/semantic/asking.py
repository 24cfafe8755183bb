"""Asks the semantic layer of a connection: compiled, checked by the filter, run read-only, told with a receipt."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ktx_cli.connectors.guard.unknown import names_are_missing
from ktx_cli.connectors.remembering import Remembering
from ktx_cli.context.semantic.query import DEFAULT_LIMIT
from ktx_cli.core.clock import monotonic
from ktx_cli.core.errors import KtxError, ResultWarning, SourceError
from ktx_cli.core.numbers import NumberFormat
from ktx_cli.core.text import plural, shell_words
from ktx_cli.jobs.semantic.guarded import DEFAULT_BYTES, json_rows, require_defined
from ktx_cli.jobs.semantic.layers import broken_files_told, the_layer
from ktx_cli.jobs.semantic.means import ANEW, Means
from ktx_cli.jobs.semantic.questions import Question, shaped
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.layout import Layout

if TYPE_CHECKING:
    from ktx_cli.context.semantic.asking import Answer
    from ktx_cli.context.semantic.verifying import Verified
    from ktx_cli.jobs.semantic.guarded import GuardedConnector


@dataclass(frozen=True, slots=True)
class Told:
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
        return KtxError(
            f"{plural(self.mismatches, 'number')}{checked} came out differently when recomputed from raw rows{where}",
            hint="do not use the answer: a definition or the compiler is wrong. --json lists what differs in "
            "receipt.verified, ktx sl explain shows how it was computed; report it with both",
            details={"verified": verified} if values else {"mismatches": self.mismatches},
            code="not_verified",
        )


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
    means: Means = ANEW,
    suggest: bool | None = None,
    formats: bool = False,
) -> Told:
    """Return the answer of a question.

    `suggest`: whether to warn about filter values that no row has, and whether other values may be named (None: no
    warning). With `scan.privacy: strict` none is named. `formats`: find out how numbers are printed.
    Raises `UsageError` (which connection), `SemanticError` where there is no right answer, `StatementRefusedError`,
    and what opening a connection raises.
    """
    from ktx_cli.context.semantic.asking import ask_prepared

    started = monotonic()
    connection = the_layer(layout, config, question.connection)
    model = means.load(layout, config, connection)
    guard = means.guard(layout, config, connection, model)
    query = shaped(question, model)
    loaded = (monotonic() - started) * 1000
    asked_at = now or datetime.now(UTC)
    opened = guard.open(config, layout=layout, environ=environ, opener=means.opener)
    with broken_files_told(model), opened as connector:
        begun = monotonic()
        prepared = means.prepare(model, query, attributes=question.attributes, now=asked_at)
        require_defined(config, connection, prepared.asked.plan)
        probing = None if means.counted is None else Remembering(connector, means.counted)
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
    return Told(
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
            diff = shell_words("ktx", "diff", connection)
            error.hint = f"`{diff}` shows what changed in the database since the last scan"
        elif error.code == "query":
            error.hint = "`ktx sl explain` shows the statement that ktx wrote"
        raise


def _value_warnings(
    answer: Answer, connector: GuardedConnector, layout: Layout, connection: str, *, suggest: bool
) -> list[ResultWarning]:
    from ktx_cli.jobs.semantic.value_warnings import value_warnings

    plan = None if answer.asked is None else answer.asked.plan
    if plan is None or not (plan.filters or plan.time_range):  # most questions: nothing is loaded for them
        return []
    return value_warnings(answer, connector, layout, connection, suggest=suggest)


def _formats(answer: Answer, layout: Layout, connection: str) -> tuple[NumberFormat | None, ...]:
    from ktx_cli.jobs.semantic.number_formats import answer_formats

    return answer_formats(answer, layout, connection)


def _cut(answer: Answer, too_large: bool, limit: int) -> str | None:
    """Return why rows were left out; an answer cut before its limit held all the bytes a session may."""
    if too_large or (answer.truncated and len(answer.rows) < limit):
        return "bytes"
    return "rows" if answer.truncated else None


def _verified(answer: Answer, connector: GuardedConnector, wanted: bool | None) -> Verified | None:
    """Recompute every row of an answer, none, or (`wanted` None) a sample where its numbers are over time."""
    from ktx_cli.context.semantic.verifying import verify, verify_sample

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
