"""KTX346: a measure depends on a convention that has not been decided yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ktx_cli.core import Command, Diagnostic, Hint, KtxError, Location, Severity, one_line, plural
from ktx_cli.jobs.check.lint.lint import LintedProject, Rule, measures_of
from ktx_cli.project import DATABASE_SOURCE, DECISIONS_NAME, Layout, WorkingTree
from ktx_cli.scan import DECISIONS, read_decisions
from ktx_cli.semantic import DecisionKind, DecisionPoint, Graph, is_touched, load_answers, percent, reached_from


def check(project: LintedProject) -> Iterator[Diagnostic]:
    """Yield the measures by people and tools that open decision points affect; an unreadable record is an error."""
    for layer in project.described_layers:
        connection = layer.model.connection
        tree = WorkingTree(project.layout.root)
        try:
            found = read_decisions(tree, layer.model)
            if not found.points:
                continue
            decisions = replace(found, answers=tuple(load_answers(tree, connection))).answered()
        except KtxError as error:
            of_people = error.exit_code == 2
            path = DECISIONS_NAME if of_people else Layout.raw_path(connection, DATABASE_SOURCE, DECISIONS)
            hint = error.hint or Hint(f"correct {path}")
            yield RULE.diagnostic(error.message, Location(path, 1, connection=connection), hint, Severity.ERROR)
            continue
        points = [each for each in decisions.unsettled() if each.kind is not DecisionKind.FISCAL_START]
        graph = Graph(layer.model)
        for source in layer.sources() if points else ():
            reached = reached_from(graph, source.name, {each.source for each in points})
            for measure in measures_of(source):
                ref = f"{source.name}.{measure.name}"
                touching = [each for each in points if is_touched(each, ref, reached)]
                if touching and not measure.is_proposed:
                    text, hint = _message(touching, ref)
                    yield RULE.diagnostic(text, layer.location(source, measure), hint)


def _message(points: Sequence[DecisionPoint], ref: str) -> tuple[str, Hint]:
    """Return the message about a measure, and the command that decides the point with the largest effect on it."""
    first = max(points, key=lambda each: each.spreads.get(ref, 0.0))
    spread = first.spreads.get(ref)
    differs = "" if spread is None else f" It differs by {percent(spread)}."
    count = plural(len(points), "open decision")
    return f"`{ref}` depends on {count}: {one_line(first.question, 300)}{differs}", Command("decide", first.id)


RULE = Rule(
    "KTX346",
    "undecided-measure",
    Severity.INFO,
    "A measure depends on a convention that has not been decided yet.",
    "The data cannot settle the convention, such as whether internal accounts count, and each interpretation gives a "
    "different number. Until a person decides, receipts for questions with the measure say so. Run "
    "`ktx decide` to list the open decisions by their effect. A `decisions.yaml` or a record that "
    "cannot be read is reported as an error.",
    check,
    bad={
        "raw-sources/warehouse/live-database/decisions.json": """\
{"format": 1, "points": [
  {"schema": "shop", "table": "orders", "kind": "amount", "columns": ["amount"], "question": "With or without tax?",
   "alternatives": [{"id": "with", "label": "With tax", "expr": "sum(amount)"},
                    {"id": "without", "label": "Without tax", "expr": "sum(amount / 1.19)"}],
   "evidence": [], "share": 1.0}
]}
""",
        "decisions.yaml": None,
    },
    good={
        "raw-sources/warehouse/live-database/decisions.json": """\
{"format": 1, "points": [
  {"schema": "shop", "table": "orders", "kind": "amount", "columns": ["amount"], "question": "With or without tax?",
   "alternatives": [{"id": "with", "label": "With tax", "expr": "sum(amount)"},
                    {"id": "without", "label": "Without tax", "expr": "sum(amount / 1.19)"}],
   "evidence": [], "share": 1.0}
]}
""",
        "decisions.yaml": """\
decisions:
  - connection: warehouse
    point: orders.amount.amount
    alternative: with
    decision: With tax
    decided_by: Grace
    decided_on: 2026-01-31
""",
    },
)
