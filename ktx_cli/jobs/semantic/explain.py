"""Explain semantic layer queries: how ktx would answer one, and the definitions and rows behind an answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.core import plural
from ktx_cli.jobs.semantic.layers import choose_layer
from ktx_cli.jobs.semantic.question import Question, complete_query
from ktx_cli.jobs.semantic.statuses import answer_status
from ktx_cli.project import KtxConfig, Layout
from ktx_cli.semantic import LoadLayer, broken_files_named, database_of, load_layer, require_defined

HOW: Final[Mapping[str, str]] = {
    "where": "keeps rows",
    "semi_join": "keeps rows that have such a joined row",
    "having": "keeps finished rows",
    "segment": "a segment of the query",
}
"""The effect of a filter, by its kind in the receipt."""


@dataclass(frozen=True, slots=True)
class Explained:
    """An explained query. `receipt` is the receipt of its answer without row counts."""

    connection: str
    sql: str
    totals_sql: str | None
    columns: tuple[Mapping[str, Any], ...]
    receipt: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the data for the envelope."""
        return {
            "connection": self.connection,
            "columns": [dict(each) for each in self.columns],
            "steps": list(self.steps()),
            "sql": self.sql,
            "totals_sql": self.totals_sql,
            "receipt": dict(self.receipt),
        }

    def steps(self) -> Iterator[str]:
        """Yield the plan in words, one line per step."""
        yield from fact_lines(self.receipt)
        yield from (f"then: keeps finished rows where {each}" for each in self.receipt["having"])
        yield from (f"note: {each}" for each in self.receipt["notes"])


def explain_question(
    layout: Layout, config: KtxConfig, question: Question, *, load: LoadLayer = load_layer
) -> Explained:
    """Explain how a query would be answered. Raises `SemanticError` if it has no correct answer."""
    from ktx_cli.semantic import compile_query, receipt

    connection = choose_layer(layout, config, question.connection)
    database_of(config, connection)
    model = load(layout, config, connection)
    with broken_files_named(model):
        asked = compile_query(model, complete_query(question, model), caller=question.caller)
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
    built["status"] = answer_status(layout, config, model, asked, question.least)
    return Explained(connection, asked.sql, totals, tuple(columns), built)


def fact_lines(receipt: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines about every fact in an answer with its aggregates, joins and conditions.

    The conditions of a measure follow the measure.
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
    """Yield lines about the recomputed numbers in an answer and about those that were not verified."""
    if verified is None:
        return
    if verified["rows"]:
        rows = f"{verified['rows']:,} of {plural(verified['of'], 'row')}"
        is_part = verified["sampled"] and verified["rows"] < verified["of"]
        why = f" ({verified['stopped']})" if verified["stopped"] else " (a sample)" if is_part else ""
        yield f"verified: {plural(verified['numbers'], 'number')} in {rows}, recomputed from raw rows{why}"
    elif verified["stopped"]:
        yield f"not verified: {verified['stopped']}"
    yield from (f"not verified: `{name}`: {why}" for name, why in verified["skipped"].items())


def _unmatched(join: Mapping[str, Any]) -> str:
    missing = f"{join['null_keys']:,} without a key, {join['dangling']:,} with a key that matches no row"
    return f"  unmatched {join['join']}: {missing}"


def choices_of(details: Mapping[str, Any]) -> Sequence[tuple[str, ...]]:
    """Return an error's choices as rows: the word to use and its meaning."""
    choices = details.get("choices") or ()
    if choices:
        return [(str(each["via"]), str(each["path"])) for each in choices]
    return [(str(each), "") for each in details.get("candidates") or ()]
