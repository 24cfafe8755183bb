"""KTX346: a measure depends on a convention that nobody has decided."""

from __future__ import annotations

from collections.abc import Iterator

from ktx_cli.core import Diagnostic, Hint, KtxError, Location, Severity, one_line, plural
from ktx_cli.jobs.check.lint.lint import LintedProject, Rule, measures_of
from ktx_cli.jobs.decide.notes import has_points
from ktx_cli.jobs.decide.points import COMMAND, LoadedDecisions, load_decisions
from ktx_cli.project import DATABASE_SOURCE, DECISIONS_NAME, Layout, WorkingTree
from ktx_cli.scan import DECISIONS
from ktx_cli.semantic import DecisionKind, Graph, is_touched, percent, reached_from


def check(project: LintedProject) -> Iterator[Diagnostic]:
    """Yield the measures of people and tools that open points touch; a record that cannot be read is an error."""
    for layer in project.described_layers:
        connection = layer.model.connection
        if not has_points(project.layout, connection):
            continue
        try:
            loaded = load_decisions(WorkingTree(project.layout.root), layer.model)
        except KtxError as error:
            of_people = error.exit_code == 2
            path = DECISIONS_NAME if of_people else Layout.raw_path(connection, DATABASE_SOURCE, DECISIONS)
            hint = error.hint or Hint(f"correct {path}")
            yield RULE.diagnostic(error.message, Location(path, 1, connection=connection), hint, Severity.ERROR)
            continue
        graph = Graph(layer.model)
        for source in layer.sources():
            for measure in measures_of(source):
                ref = f"{source.name}.{measure.name}"
                if not measure.is_proposed and (message := _message(loaded, graph, source.name, ref)) is not None:
                    text, hint = message
                    yield RULE.diagnostic(text, layer.location(source, measure), hint)


def _message(loaded: LoadedDecisions, graph: Graph, source: str, ref: str) -> tuple[str, Hint] | None:
    """Return what to say of a measure, and the command that decides the point with the largest effect on it."""
    points = [each for each in loaded.decisions.unsettled() if each.kind is not DecisionKind.FISCAL_START]
    if not points:
        return None
    reached = reached_from(graph, source, {each.source for each in points})
    touching = [each for each in points if is_touched(each, ref, reached)]
    if not touching:
        return None
    first = max(touching, key=lambda each: each.spreads.get(ref, 0.0))
    spread = first.spreads.get(ref)
    differs = "" if spread is None else f" It differs by {percent(spread)}."
    count = plural(len(touching), "open decision")
    return f"`{ref}` depends on {count}: {one_line(first.question, 300)}{differs}", COMMAND.with_words(first.id)


RULE = Rule(
    "KTX346",
    "undecided-measure",
    Severity.INFO,
    "A measure depends on a convention that nobody has decided.",
    "The data cannot settle the convention, such as whether internal accounts count, and each reading gives another "
    "number. Until a person decides, receipts of questions with the measure say so. Run `ktx decide` to list the open "
    "points by what they change. A `decisions.yaml` or a record that cannot be read is reported as an error.",
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
